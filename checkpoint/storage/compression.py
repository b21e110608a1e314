"""Saved states made smaller: arrays are packed when they are saved, and unpacked when they are loaded."""

from collections.abc import Callable
from functools import partial
from typing import Any
from zlib import compress, decompress

import numpy as np
import optree

from .states import copy_state, raw

__all__ = ["PACKERS"]

NARROWER = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}


class Packed:
    """An array that was made smaller: its data, and the function of them that gives it back."""

    def __init__(self, data: np.ndarray, restore: Callable[[np.ndarray], np.ndarray]) -> None:
        self.data, self.restore, self.nbytes = data, restore, data.nbytes


def deflated(array: np.ndarray) -> Packed | None:
    if array.dtype.hasobject:
        return None
    dtype, shape = array.dtype, array.shape
    inflated = lambda data: np.ndarray(shape, dtype, bytearray(decompress(data.data)))
    return Packed(np.frombuffer(compress(raw(array), level=1), np.uint8), inflated)


def narrowed(array: np.ndarray) -> Packed | None:
    """Round an array of double precision to single precision: half of the digits are lost."""
    narrower = NARROWER.get(array.dtype)
    return None if narrower is None else Packed(array.astype(narrower, order="C"), partial(np.ndarray.astype, dtype=array.dtype))


def packed(pack: Callable[[np.ndarray], Packed | None], state: Any) -> Any:
    """Return a state whose arrays are packed, as far as they can be, and whose other leaves are copied."""
    return optree.tree_map(lambda leaf: (pack(leaf) if type(leaf) is np.ndarray else None) or copy_state(leaf), state)


def unpacked(state: Any) -> Any:
    return optree.tree_map(lambda leaf: leaf.restore(leaf.data) if type(leaf) is Packed else copy_state(leaf), state)


PACKERS = {"zlib": (partial(packed, deflated), unpacked), "float32": (partial(packed, narrowed), unpacked)}
