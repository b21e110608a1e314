"""Saved states in main memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import compress, decompress

import numpy as np
import optree

from ..support.checks import whole_number
from .pool import MemorySession
from .states import copy_state, nbytes, raw
from .storage import Storage

__all__ = ["Memory", "itself"]


@dataclass(frozen=True, repr=False)
class Memory(Storage):
    """Keep copies of states in main memory.

    States are copied when they are saved and again when they are loaded, so a step may write into what it is handed. Small states
    (up to 4 KB of numbers and arrays) are packed: their numbers stand side by side in a few blocks.

    Parameters
    ----------
    copy : callable, optional
        ``copy(state) -> state`` for states that the default does not copy right, such as
        ``lambda x: x.clone()`` for a torch tensor. The default copies the array leaves of a pytree, C-contiguous, and
        keeps other leaves (numbers, None, texts) as they are.
    slots : int, optional
        Most states saved at the same time; one more raises. The default is no limit.
    compress : {"zlib", "float32"}, optional
        ``"zlib"`` deflates the arrays of saved states, without loss. ``"float32"`` is lossy: it rounds arrays of double
        precision to single, so that steps are repeated and pulled from states that are off in the eighth digit, and the
        gradient has an error of that order.

    Raises
    ------
    TypeError, ValueError
        If `copy` is not callable, or `slots` not an integer of at least 1, or there is no such `compress`, or it is given
        together with `copy`.

    Examples
    --------
    >>> session = Memory().open()
    >>> session.save(0, 4.5)
    >>> session.load(0), 0 in session, len(session), session.nbytes()
    (4.5, True, 1, 8)
    """

    copy: Callable[[Any], Any] | None = None
    slots: int | None = None
    compress: str | None = None

    def __post_init__(self) -> None:
        if self.copy is not None and not callable(self.copy):
            raise TypeError(f"Memory: copy must be a function of a state, got {self.copy!r}; leave it out for arrays")
        if self.slots is not None:
            hint = "leave it out for no limit"
            slots = whole_number(self.slots, where="Memory", argument="slots", least=1, hint=hint)
            object.__setattr__(self, "slots", slots)
        if self.compress is not None:
            if self.compress not in PACKERS:
                raise ValueError(f'Memory: compress must be "zlib" or "float32" (which is lossy), got {self.compress!r}')
            if self.copy is not None:
                raise TypeError("Memory: compress packs the arrays of a state, and does not go with a copy of your own")
        object.__setattr__(self, "lossy", self.compress == "float32")

    def open(self) -> "MemorySession":
        copy = self.copy or copy_state
        pack, unpack = (copy, copy) if self.compress is None else PACKERS[self.compress]
        return MemorySession(copy, self.slots, pack, unpack)


def itself(state: Any) -> Any:
    return state


# --- saved states made smaller: arrays are packed when they are saved, and unpacked when they are loaded -------------------------------

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
