"""States: copying, measuring, the canonical layout, and compression of saved ones.

A state is any pytree (tuple, list, dict, namedtuple, ... of leaves; see optree). The canonical layout is: every ndarray
leaf C-contiguous, aligned and writeable. NumPy's results depend on strides in the last bits, so a step that is to give
the same bits on every replay has to be handed the same layout on every replay.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from zlib import compress, decompress

import numpy as np
import optree

ATOMS = frozenset({float, int, bool, complex, str, bytes, type(None), np.float64, np.float32, np.complex128, np.int64})
SIZES = {float: 8, int: 8, bool: 8, complex: 16}


def copy_state(state: Any) -> Any:
    """Copy a state: containers are rebuilt, ndarrays become C-contiguous (subclasses stay), other NumPy-like arrays go through ``np.copy``.
    Everything else is shared: a foreign mutable leaf needs ``Memory(copy=...)``."""
    kind = type(state)
    if kind in ATOMS:
        return state
    if kind is np.ndarray:
        return np.array(state, order="C", copy=True)
    return optree.tree_map(copy_leaf, state)


def copy_leaf(leaf: Any) -> Any:
    if type(leaf) is np.ndarray:
        return np.array(leaf, order="C", copy=True)
    if issubclass(type(leaf), np.ndarray):  # np.array would make a plain array of it: a mask, for instance, would be lost
        return leaf.copy(order="C")
    if hasattr(type(leaf), "__array_function__") and np.ndim(leaf):
        return np.copy(leaf)
    return leaf


def canonical(state: Any) -> Any:
    """Return a state with C-contiguous ndarray leaves, copying only those that are not; `state` itself if all are."""
    if type(state) is np.ndarray:
        return state if state.flags.carray else np.array(state, order="C", copy=True)
    if type(state) is tuple:  # of arrays, as compiled chains have it
        for leaf in state:
            if type(leaf) is not np.ndarray or not leaf.flags.carray:
                break
        else:
            return state
    if any(map(needs_copy, optree.tree_leaves(state))):
        return optree.tree_map(lambda leaf: copy_leaf(leaf) if needs_copy(leaf) else leaf, state)
    return state


def needs_copy(leaf: Any) -> bool:
    """Return whether a leaf is an ndarray that is not C-contiguous, aligned and writeable."""
    return issubclass(type(leaf), np.ndarray) and not leaf.flags.carray


def has_arrays(state: Any) -> bool:
    """Return whether any leaf of a state is an ndarray, so that its layout matters."""
    return type(state) not in ATOMS and any(issubclass(type(leaf), np.ndarray) for leaf in optree.tree_leaves(state))


def nbytes(state: Any) -> int:
    """Return the bytes of data in a state: ``leaf.nbytes``, or 8 for a Python number and 16 for a complex one."""
    size = getattr(state, "nbytes", None)
    return size if type(size) is int else sum(int(getattr(leaf, "nbytes", SIZES.get(type(leaf), 0))) for leaf in optree.tree_leaves(state))


def raw_bytes(array: np.ndarray) -> memoryview:
    """Return the bytes of an array without Python objects, as a view if it is C-contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.nbytes else memoryview(bytearray())


# --- made smaller ----------------------------------------------------------------------------------------------------------------

NARROWER = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}


class Packed:
    """A compressed array: its data, and the function that restores it from them."""

    def __init__(self, data: np.ndarray, restore: Callable[[np.ndarray], np.ndarray]) -> None:
        self.data, self.restore, self.nbytes = data, restore, data.nbytes


def deflate(array: np.ndarray) -> Packed | None:
    if array.dtype.hasobject:
        return None
    dtype, shape = array.dtype, array.shape
    inflated = lambda data: np.ndarray(shape, dtype, bytearray(decompress(data.data)))
    return Packed(np.frombuffer(compress(raw_bytes(array), level=1), np.uint8), inflated)


def narrow(array: np.ndarray) -> Packed | None:
    """Round an array of double precision to single precision: half of the digits are lost."""
    narrower = NARROWER.get(array.dtype)
    return None if narrower is None else Packed(array.astype(narrower, order="C"), partial(np.ndarray.astype, dtype=array.dtype))


def pack_arrays(pack: Callable[[np.ndarray], Packed | None], state: Any) -> Any:
    """Return a state whose arrays are packed, as far as they can be, and whose other leaves are copied."""
    return optree.tree_map(lambda leaf: (pack(leaf) if type(leaf) is np.ndarray else None) or copy_state(leaf), state)


def unpack_arrays(state: Any) -> Any:
    return optree.tree_map(lambda leaf: leaf.restore(leaf.data) if type(leaf) is Packed else copy_state(leaf), state)


PACKERS = {"zlib": (partial(pack_arrays, deflate), unpack_arrays), "float32": (partial(pack_arrays, narrow), unpack_arrays)}
