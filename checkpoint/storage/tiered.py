"""Two storages at once: some places of the stack of saved states in main memory, the others on disk."""

from dataclasses import dataclass, field, replace
from typing import Any

from .disk import Disk
from .memory import Memory, MemorySession
from .storage import Session, Storage, check_storage


@dataclass(frozen=True, repr=False)
class Tiers(Storage):
    """Keep some of the saved states on disk and the others in main memory.

    The saved states are a stack, with x_0 in place 0: a state that is saved while p others are has place p. The schedule
    knows how often each place is written and read, so it decides which places go to disk. ``schedule=Tiered(...)`` uses this
    storage by itself; write ``storage=Tiers(Memory(...), Disk(...))`` only to set options of
    the two.

    Parameters
    ----------
    memory, disk : the fast and the slow one.
    on_disk : the places that go to disk.

    Raises
    ------
    TypeError
        If `memory` or `disk` is not a storage.

    Examples
    --------
    >>> session = Tiers(on_disk={0}).open()
    >>> session.save(0, 1.5)
    >>> session.save(8, 2.5)
    >>> session.load(0), session.load(8), len(session.disk), len(session.memory)
    (1.5, 2.5, 1, 1)
    >>> session.clear()
    """

    memory: Storage = field(default_factory=Memory)
    disk: Storage = field(default_factory=Disk)
    on_disk: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for name in ("memory", "disk"):
            check_storage(getattr(self, name), "Tiers", name)
        if self.disk.durable or self.memory.durable:
            raise ValueError(
                "Tiers: states in memory do not outlive the process, so resume=True needs Disk alone, and a schedule other than Tiered"
            )
        object.__setattr__(self, "on_disk", frozenset(self.on_disk))
        object.__setattr__(self, "lossy", self.memory.lossy or self.disk.lossy)

    def open(self) -> "TieredSession":
        return TieredSession(self.memory.open(), self.disk.open(), self.on_disk)


def with_tiers(storage: Storage, on_disk: frozenset[int]) -> Storage:
    """Return the user's storage made to put the places `on_disk` on disk: `Memory` or `Disk` is added unless it is a `Tiers`."""
    if not on_disk:
        return storage
    if isinstance(storage, Tiers):
        return replace(storage, on_disk=on_disk)
    return Tiers(disk=storage, on_disk=on_disk) if isinstance(storage, Disk) else Tiers(storage, on_disk=on_disk)


class TieredSession(MemorySession):
    """The states of one sweep in two sessions, the places `on_disk` in the second; see `Session`."""

    name = "Tiers"

    def __init__(self, memory: Session, disk: Session, on_disk: frozenset[int]) -> None:
        super().__init__(memory.copy)
        self.memory, self.disk, self._on_disk = memory, disk, on_disk

    def _put(self, index: int, state: Any) -> int:
        session = self.disk if len(self) in self._on_disk else self.memory
        session.save(index, state)
        size = session.nbytes(index)
        self._large[index] = session, size
        return size

    def _take(self, index: int, kept: Any) -> Any:
        return kept[0].load(index)

    def drop(self, index: int) -> None:
        session, _ = self._get(index, "drop")
        try:
            session.drop(index)
        finally:  # where it failed, perhaps for a state that was written before, this one may be dropped or not
            if index not in session:
                super().drop(index)
        if self.loads and self._large:
            self.prefetch(max(self._large))

    def prefetch(self, index: int) -> None:
        self._get(index, "read")[0].prefetch(index)

    def clear(self) -> None:
        super().clear()
        try:
            self.memory.clear()
        finally:
            self.disk.clear()
