"""Saved states in main memory that are not copied: nobody writes into them."""

from dataclasses import dataclass
from typing import Any

from .memory import Memory, MemorySession

__all__ = ["ByReference", "HeldSession"]


@dataclass(frozen=True, repr=False)
class ByReference(Memory):
    """Keeps the states themselves, without copies; each counts as `size` bytes."""

    size: int = 0

    def open(self) -> "HeldSession":
        """A new, empty session."""
        return HeldSession(self.slots, self.size)


class HeldSession(MemorySession):
    """The states of one sweep in main memory, as they are; see `Session` for the methods and counts."""

    def __init__(self, slots: int | None, size: int) -> None:
        super().__init__(itself, slots, itself, itself)
        self._size = size

    def save(self, index: int, state: Any) -> None:
        """Save a state; see `Session.save`."""
        states = self._states
        if index in states or len(states) == self._slots:
            super().save(index, state)  # which raises
        states[index] = state, self._size
        self._bytes += self._size
        self.saves += 1
        if self._bytes > self.peak_bytes:
            self.peak_states, self.peak_bytes = len(states), self._bytes

    def load(self, index: int) -> Any:
        """A saved state; see `Session.load`."""
        if index not in self._states:
            raise self._absent(index, "load")
        self.loads += 1
        return self._states[index][0]

    def drop(self, index: int) -> None:
        """Free a saved state; see `Session.drop`."""
        if index not in self._states:
            raise self._absent(index, "drop")
        del self._states[index]
        self._bytes -= self._size

    def __contains__(self, index: object) -> bool:
        return index in self._states

    def __len__(self) -> int:
        return len(self._states)


def itself(state: Any) -> Any:
    """A state itself."""
    return state
