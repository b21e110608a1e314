"""What a state is made of: copying it, measuring it, and its canonical layout.

A state is any pytree (tuple, list, dict, namedtuple, ... of leaves; see optree). The canonical layout is: every ndarray
leaf C-contiguous, aligned and writeable. NumPy's results depend on strides in the last bits, so a step that is to give
the same bits on every replay has to be handed the same layout on every replay.
"""

from typing import Any

import numpy as np
import optree

__all__ = ["canonical", "copy_state", "has_arrays", "nbytes", "raw"]

ATOMS = frozenset({float, int, bool, complex, str, bytes, type(None), np.float64, np.float32, np.complex128, np.int64})
SIZES = {float: 8, int: 8, bool: 8, complex: 16}


def copy_state(state: Any) -> Any:
    """Copy a state so that nothing written into either one is seen in the other.

    Containers are rebuilt. An ndarray leaf becomes a C-contiguous array (a subclass of ndarray stays what it is), any
    other array that takes part in NumPy's protocols is copied by ``np.copy``, everything else is kept as it is: a
    foreign mutable leaf needs a copy function of its own, ``Memory(copy=...)``.

    Parameters
    ----------
    state : pytree

    Returns
    -------
    pytree

    Examples
    --------
    >>> import numpy as np
    >>> state = (np.zeros((2, 3)).T, 1.5, None)
    >>> copied = copy_state(state)
    >>> copied[0].flags.c_contiguous, copied[0].base is None, copied[1:]
    (True, True, (1.5, None))
    """
    kind = type(state)
    if kind in ATOMS:
        return state
    if kind is np.ndarray:
        return np.array(state, order="C", copy=True)
    return optree.tree_map(_copy_leaf, state)


def _copy_leaf(leaf: Any) -> Any:
    if type(leaf) is np.ndarray:
        return np.array(leaf, order="C", copy=True)
    if issubclass(type(leaf), np.ndarray):  # np.array would make a plain array of it: a mask, for instance, would be lost
        return leaf.copy(order="C")
    if hasattr(type(leaf), "__array_function__") and np.ndim(leaf):
        return np.copy(leaf)
    return leaf


def canonical(state: Any) -> Any:
    """Bring the ndarray leaves of a state into the canonical layout, copying only those that are not in it.

    Parameters
    ----------
    state : pytree

    Returns
    -------
    pytree
        `state` itself if nothing had to be done.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros((2, 3))
    >>> canonical(x) is x, canonical(x.T).strides
    (True, (16, 8))
    """
    if type(state) is np.ndarray:
        return state if state.flags.carray else np.array(state, order="C", copy=True)
    if type(state) is tuple:  # of arrays, as compiled chains have it
        for leaf in state:
            if type(leaf) is not np.ndarray or not leaf.flags.carray:
                break
        else:
            return state
    for leaf in optree.tree_leaves(state):
        if issubclass(type(leaf), np.ndarray) and not leaf.flags.carray:
            return optree.tree_map(_canonical_leaf, state)
    return state


def _canonical_leaf(leaf: Any) -> Any:
    return _copy_leaf(leaf) if issubclass(type(leaf), np.ndarray) and not leaf.flags.carray else leaf


def has_arrays(state: Any) -> bool:
    """Return whether any leaf of a state is an ndarray, so that its layout matters.

    Parameters
    ----------
    state : pytree

    Returns
    -------
    bool

    Examples
    --------
    >>> import numpy as np
    >>> has_arrays((1.0, None)), has_arrays({"u": np.zeros(3)})
    (False, True)
    """
    return any(issubclass(type(leaf), np.ndarray) for leaf in optree.tree_leaves(state))


def nbytes(state: Any) -> int:
    """Bytes of data in the leaves of a state: ``leaf.nbytes``, or 8 for a Python number and 16 for a complex one.

    Parameters
    ----------
    state : pytree

    Returns
    -------
    int

    Examples
    --------
    >>> import numpy as np
    >>> nbytes((np.zeros(10), 1.0, 2j, None))
    104
    """
    size = getattr(state, "nbytes", None)
    if type(size) is int:
        return size
    return sum(_leaf_nbytes(leaf) for leaf in optree.tree_leaves(state))


def _leaf_nbytes(leaf: Any) -> int:
    size = getattr(leaf, "nbytes", None)
    return int(size) if size is not None else SIZES.get(type(leaf), 0)


def raw(array: np.ndarray) -> memoryview:
    """The bytes of an array, not copied if it is C-contiguous.

    Parameters
    ----------
    array : ndarray
        Without Python objects.

    Returns
    -------
    memoryview

    Examples
    --------
    >>> bytes(raw(np.array([[1, 256]], np.int16)))
    b'\\x01\\x00\\x00\\x01'
    """
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.nbytes else memoryview(bytearray())
