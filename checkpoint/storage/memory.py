"""Saved states in main memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import optree

from ..support.checks import whole_number
from .compress import PACKERS
from .pool import NUMBER, PackedStates
from .states import copy_state, nbytes
from .storage import Session, Storage

__all__ = ["Memory", "MemorySession"]


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

    @property
    def lossy(self) -> bool:
        """See `Storage.lossy`."""
        return self.compress == "float32"

    def open(self) -> "MemorySession":
        """A new, empty session.

        Returns
        -------
        MemorySession
        """
        copy = self.copy or copy_state
        pack, unpack = (copy, copy) if self.compress is None else PACKERS[self.compress]
        return MemorySession(copy, self.slots, pack, unpack)


class MemorySession(Session):
    """The states of one sweep in main memory, at most `slots` of them, as ``pack(copy(state))``; see `Session`."""

    def __init__(self, copy: Callable[[Any], Any], slots: int | None, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        self._copy, self._pack, self._unpack = copy, pack, unpack
        self._slots = slots
        self._states: dict[int, tuple[Any, int]] = {}  # index: (state, bytes), of what is not packed
        self._pool = PackedStates()
        self._bytes = 0

    def copy(self, state: Any) -> Any:
        """An independent copy of a state; see `Session.copy`."""
        return self._copy(state)

    def save(self, index: int, state: Any) -> None:
        """Save a copy of a state; see `Session.save`."""
        if index in self._pool or index in self._states:
            raise ValueError(f"Memory: state {index} is saved already; drop it before saving it again")
        count = len(self._pool) + len(self._states)
        if count == self._slots:
            raise RuntimeError(
                f"Memory: cannot save state {index}: all {self._slots} slots hold states {self.indices()}; drop one, or give more slots"
            )
        size = self._packed(index, state) if self._pack is copy_state else None
        if size is None:
            state = self._pack(state)
            size = nbytes(state)
            self._states[index] = state, size
        self._bytes += size
        self.saves += 1
        if count >= self.peak_states:
            self.peak_states = count + 1
        if self._bytes > self.peak_bytes:
            self.peak_bytes = self._bytes

    def _packed(self, index: int, state: Any) -> int | None:
        """Put a state into the pool and return its bytes; None if it is not small."""
        if type(state) is float:
            return self._pool.add(index, NUMBER, (state,))
        leaves, structure = optree.tree_flatten(state, none_is_leaf=True)
        return self._pool.add(index, structure, leaves)

    def load(self, index: int) -> Any:
        """A copy of a saved state; see `Session.load`."""
        if (packed := self._pool.get(index)) is not None:
            structure, leaves = packed
            self.loads += 1
            return leaves[0] if structure is NUMBER else optree.tree_unflatten(structure, leaves)
        try:
            state = self._states[index][0]
        except KeyError:
            raise self._absent(index, "load") from None
        self.loads += 1
        return self._unpack(state)

    def drop(self, index: int) -> None:
        """Free a saved state; see `Session.drop`."""
        if (size := self._pool.remove(index)) is not None:
            self._bytes -= size
            return
        try:
            self._bytes -= self._states.pop(index)[1]
        except KeyError:
            raise self._absent(index, "drop") from None

    def clear(self) -> None:
        """Free everything; see `Session.clear`."""
        self._states.clear()
        self._pool.clear()
        self._bytes = 0

    def indices(self) -> list[int]:
        """Indices of the saved states, ascending."""
        return sorted([*self._pool.indices(), *self._states]) if self._states else self._pool.indices()

    def nbytes(self, index: int | None = None) -> int:
        """Bytes of one saved state, or of all; see `Session.nbytes`."""
        if index is None:
            return self._bytes
        if (size := self._pool.data_bytes(index)) is not None:
            return size
        try:
            return self._states[index][1]
        except KeyError:
            raise self._absent(index, "measure") from None

    def __len__(self) -> int:
        return len(self._pool) + len(self._states)

    def __contains__(self, index: object) -> bool:
        return index in self._pool or index in self._states

    def _absent(self, index: int, verb: str) -> KeyError:
        return KeyError(f"Memory: cannot {verb} state {index}: saved are {self.indices()}; save it first")
