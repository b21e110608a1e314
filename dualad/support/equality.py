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
    return a.shape == b.shape and (same_arrays(a, b) or not differing(a, b).any())


def differing(a, b):
    """Return where two arrays of one shape differ by more than rounding, as `nearly_same` has it."""
    if a.dtype.kind not in "fc" or (equal := a == b).all():
        return a != b
    with np.errstate(all="ignore"):
        both = np.isfinite(a) & np.isfinite(b)
        scale = np.abs(a).max(initial=0.0, where=np.isfinite(a))
        close = np.abs(a - b) <= np.sqrt(np.finfo(a.dtype).eps) * scale
    return ~np.where(both, close, equal | (np.isnan(a) & np.isnan(b)))
