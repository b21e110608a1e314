"""The base classes of storages: a `Storage` is a configuration that opens sessions, a `Session` the saved states of one sweep."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf
from typing import Any

from .states import copy_state


class DamagedState(OSError):
    """A saved state cannot be read back: its file is missing, truncated, or altered.

    Attributes
    ----------
    told : whether a warning has named the file already.
    """

    told = False


class Session(ABC):
    """The saved states of one sweep.

    Attributes
    ----------
    saves, loads : calls of `save` and `load` so far. Subclasses count them, and the next two, for `Stats`.
    peak_states, peak_bytes : the most that was saved at one moment.
    due : when the next durable point is due, on the clock of `time.monotonic`; never, if states do not outlive the process.
    journal : if states outlive the process: the function that makes the journal by which a sweep resumes, given the session, x_0, the step,
        the token, the schedule, the predicate and the restorers of `Sweep`; see `checkpoint.durable.journal.DurableJournal`.
    """

    saves: int = 0
    loads: int = 0
    peak_states: int = 0
    peak_bytes: int = 0
    due: float = inf
    journal: Callable[..., Any] | None = None

    def copy(self, state: Any) -> Any:
        """An independent copy of a state."""
        return copy_state(state)

    @abstractmethod
    def save(self, index: int, state: Any) -> None:
        """Save a copy of a state as x_index: ValueError if x_index is saved already, RuntimeError if the storage is full."""

    @abstractmethod
    def load(self, index: int) -> Any:
        """A copy of x_index, the caller's own: KeyError if it is not saved, DamagedState if it cannot be read back."""

    @abstractmethod
    def drop(self, index: int) -> None:
        """Free x_index: KeyError if it is not saved."""

    @abstractmethod
    def clear(self) -> None:
        """Free everything; the counts stay. May be called twice."""

    def finish(self) -> None:
        """Free everything for good, also what outlives the process: a sweep with a journal is done."""
        self.clear()

    def prefetch(self, index: int) -> None:  # noqa: B027  (a hint)
        """Prepare for loading x_index, which is saved, soon: a hint, which may be ignored."""

    @abstractmethod
    def indices(self) -> list[int]:
        """Indices of the saved states, ascending."""

    @abstractmethod
    def nbytes(self, index: int | None = None) -> int:
        """Bytes of x_index, or of all saved states."""

    def __len__(self) -> int:
        return len(self.indices())

    def __contains__(self, index: object) -> bool:
        return index in self.indices()


class Storage(ABC):
    """Where saved states live: an immutable value that may serve many chains and threads at once.

    Attributes
    ----------
    lossy : whether states come back rounded, so that recomputed steps differ from the first sweep.
    durable : whether states outlive the process, so that another one can resume from them.
    """

    lossy: bool = False
    durable: bool = False

    def __repr__(self) -> str:
        parts: dict[str, Any] = getattr(self, "__dataclass_fields__", {})
        values = {name: getattr(self, name) for name, part in parts.items() if getattr(self, name) != part.default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    @abstractmethod
    def open(self) -> Session:
        """A new, empty session."""


def check_storage(storage: object, where: str, argument: str = "storage") -> None:
    if not isinstance(storage, Storage):
        raise TypeError(f"{where}: {argument} must be a Storage such as Memory() or Disk(path), got {storage!r}")
