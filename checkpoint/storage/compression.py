"""Saved states made smaller: arrays are packed when they are saved, and unpacked when they are loaded."""

from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import compress, decompress

import numpy as np
import optree

from .states import copy_state, nbytes, raw

__all__ = ["PACKERS"]

NARROWER = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}


class Compressed(NamedTuple):
    """The structure of a state, its leaves with what unpacks each (None: it is a copy), and how many bytes they take."""

    structure: optree.PyTreeSpec
    leaves: list[tuple[Any, Any]]
    nbytes: int


def deflate(array: np.ndarray) -> tuple[Any, Any] | None:
    return None if array.dtype.hasobject else (np.frombuffer(compress(raw(array), level=1), np.uint8), (array.dtype, array.shape))


def inflate(data: np.ndarray, kind: Any) -> np.ndarray:
    dtype, shape = kind
    array = np.empty(shape, dtype)
    raw(array)[:] = decompress(data.data, bufsize=max(array.nbytes, 1))
    return array


def narrow(array: np.ndarray) -> tuple[Any, Any] | None:
    """Round an array of double precision to single precision: half of the digits are lost."""
    narrower = NARROWER.get(array.dtype)
    return None if narrower is None else (array.astype(narrower, order="C"), array.dtype)


def of_states(pack: Callable[..., Any], unpack: Callable[..., Any]) -> tuple[Callable[[Any], Compressed], Callable[[Compressed], Any]]:
    """Return the functions of states that pack and unpack each array, of those of an array."""

    def packed(state: Any) -> Compressed:
        leaves, structure = optree.tree_flatten(state)
        arrays = [pack(leaf) if type(leaf) is np.ndarray else None for leaf in leaves]
        pairs = [(copy_state(leaf), None) if packed is None else packed for leaf, packed in zip(leaves, arrays, strict=True)]
        return Compressed(structure, pairs, sum(nbytes(leaf) for leaf, _ in pairs))

    def unpacked(state: Compressed) -> Any:
        return state.structure.unflatten([copy_state(leaf) if how is None else unpack(leaf, how) for leaf, how in state.leaves])

    return packed, unpacked


PACKERS = {"zlib": of_states(deflate, inflate), "float32": of_states(narrow, np.ndarray.astype)}
