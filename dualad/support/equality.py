"""Results compared: are two evaluations the same, bit for bit or up to rounding?"""

from math import gcd

import numpy as np

from .costs import CACHE_ELEMENTS


def same_bits(a, b):
    """Return whether two leaves hold the same bits."""
    if isinstance(a, str | bytes):
        return bool(a == b)
    if np.shape(a) != np.shape(b):
        return False
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype.hasobject or same_arrays(a, b)


def same_arrays(a, b):
    """Return whether two arrays hold the same bits (NaN included), or the same objects; large ones of one layout without a copy."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.size > CACHE_ELEMENTS and not a.dtype.hasobject:
        a, b = (a.T, b.T) if a.flags.fnc else (a, b)
        if a.flags.c_contiguous and b.flags.c_contiguous:
            word = np.dtype(f"u{gcd(a.itemsize, 8)}")
            return bool((a.reshape(-1).view(word) == b.reshape(-1).view(word)).all())
    return a.tobytes() == b.tobytes()


def nearly_same(a, b):
    """Return whether two leaves are equal up to rounding: to half of the digits, as compared with the largest element."""
    if a is b:
        return True
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.hasobject:
        return True  # not compared: kept verbatim
    if a.shape != b.shape:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    if same_arrays(a, b) or (a == b).all():
        return True
    with np.errstate(all="ignore"):
        finite = np.isfinite(a)
        if not (np.array_equal(finite, np.isfinite(b)) and np.array_equal(a[~finite], b[~finite], equal_nan=True)):
            return False
        a, b = a[finite], b[finite]
        scale = np.abs(a).max(initial=0.0)
        return bool((np.abs(a - b) <= np.sqrt(np.finfo(a.dtype).eps) * scale).all())
