"""Saved states made smaller: packed when they are saved, unpacked when they are loaded."""

from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import compress, decompress

import numpy as np
import optree

from .states import copy_state, nbytes, raw

__all__ = ["PACKERS", "Packed"]


class Packed(NamedTuple):
    """What a packer made of a state, and how many bytes that takes."""

    content: Any
    nbytes: int


class _Deflated(NamedTuple):
    data: bytes
    dtype: np.dtype
    shape: tuple[int, ...]


def pack_zlib(state: Any) -> Packed:
    """Deflate the arrays of a state, without loss."""
    leaves, structure = optree.tree_flatten(state)
    leaves = [_deflate(leaf) if type(leaf) is np.ndarray and not leaf.dtype.hasobject else copy_state(leaf) for leaf in leaves]
    size = sum(len(leaf.data) if type(leaf) is _Deflated else nbytes(leaf) for leaf in leaves)
    return Packed((structure, leaves), size)


def unpack_zlib(packed: Packed) -> Any:
    """Give back what `pack_zlib` was given."""
    structure, leaves = packed.content
    return optree.tree_unflatten(structure, [_inflate(leaf) if type(leaf) is _Deflated else copy_state(leaf) for leaf in leaves])


def pack_float32(state: Any) -> Packed:
    """Round the double-precision arrays of a state to single precision: half of the digits are lost."""
    kinds = []

    def narrow(leaf: Any) -> Any:
        narrower = NARROWER.get(leaf.dtype) if type(leaf) is np.ndarray else None
        kinds.append(None if narrower is None else leaf.dtype)
        return copy_state(leaf) if narrower is None else leaf.astype(narrower, order="C")

    rounded = optree.tree_map(narrow, state)
    return Packed((rounded, kinds), nbytes(rounded))


def unpack_float32(packed: Packed) -> Any:
    """Give back what `pack_float32` was given, in its dtypes."""
    rounded, kinds = packed.content
    kind = iter(kinds)
    return optree.tree_map(lambda leaf: copy_state(leaf) if (dtype := next(kind)) is None else leaf.astype(dtype), rounded)


NARROWER = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}

PACKERS: dict[str, tuple[Callable[[Any], Packed], Callable[[Packed], Any]]] = {
    "zlib": (pack_zlib, unpack_zlib),
    "float32": (pack_float32, unpack_float32),
}


def _deflate(array: np.ndarray) -> _Deflated:
    return _Deflated(compress(raw(array), level=1), array.dtype, array.shape)


def _inflate(leaf: _Deflated) -> np.ndarray:
    array = np.empty(leaf.shape, leaf.dtype)
    raw(array)[:] = decompress(leaf.data, bufsize=max(array.nbytes, 1))
    return array
