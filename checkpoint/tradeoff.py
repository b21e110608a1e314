"""Memory against recomputation: what each schedule needs for a given chain."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

from dualad.callers import trim

from .checks import whole_number
from .machine import simulate
from .plan import plan, state_size
from .plot import plot_tradeoff
from .schedules import CTZ, Revolve, Schedule, StoreAll
from .tables import html, markdown, text
from .units import format_bytes, parse_bytes

__all__ = ["Measured", "Row", "Tradeoff", "compare"]

LONGEST = 10**7  # one action after another: a few seconds for a million steps
HEADINGS = ("schedule", "saved states", "memory", "disk", "advances", "work")
MEASURED = ("first sweep", "reverse sweep", "time", "peak memory", "saves", "loads")
DISK = HEADINGS.index("disk")


@dataclass(frozen=True)
class Measured:
    """What one schedule took in a real run, from `profile`.

    Attributes
    ----------
    first_seconds, reverse_seconds : float
        Times of the two sweeps.
    work : float
        Both together, as a multiple of the time of one simulation. Unlike `Row.work` this includes the adjoints.
    peak_bytes : int
        The most that Python and NumPy had allocated at one moment, beyond what was there before: saved states, the working
        state, the cotangent, and what a step and a pull need.
    advances : int
        Plain calls of the step, that to x_N included, which `Row.advances` leaves out.
    saves, loads : int
        States copied into, and out of, the storage.
    peak_states : int
        The most that was saved at one moment.
    """

    first_seconds: float
    reverse_seconds: float
    work: float
    peak_bytes: int
    advances: int
    saves: int
    loads: int
    peak_states: int

    def _cells(self) -> tuple[str, ...]:
        return (
            f"{self.first_seconds:.3g} s",
            f"{self.reverse_seconds:.3g} s",
            f"{self.work:.2f}x",
            format_bytes(self.peak_bytes),
            f"{self.saves:,}",
            f"{self.loads:,}",
        )


@dataclass(frozen=True)
class Row:
    """One schedule in a `Tradeoff`.

    Attributes
    ----------
    schedule : str
        The schedule.
    states : int
        Most states saved at one moment.
    bytes : int
        Bytes of those that are in memory.
    advances : int
        Plain steps, first sweep to x_{N-1} and recomputations.
    work : float
        (advances + 1 + N) / N: all evaluations of the step as a multiple of one simulation, which is N of them. Besides
        the advances these are the step to x_N and the evaluation inside each pull. The arithmetic of the adjoints
        comes on top; it is the same for every schedule.
    disk_bytes : int
        Bytes of saved states that the schedule puts on disk.
    measured : Measured or None
        What it took in a real run, from `profile`.
    """

    schedule: str
    states: int
    bytes: int
    advances: int
    work: float
    disk_bytes: int = 0
    measured: Measured | None = None

    def _cells(self) -> tuple[str, ...]:
        return (
            self.schedule,
            f"{self.states:,}",
            format_bytes(self.bytes),
            format_bytes(self.disk_bytes),
            f"{self.advances:,}",
            f"{self.work:.2f}x",
            *(self.measured._cells() if self.measured is not None else ()),
        )


@dataclass(frozen=True)
class Tradeoff:
    """A table of schedules, from `compare` or `profile`; ``str()`` gives it as aligned text.

    Attributes
    ----------
    steps : int
        Length N of the chain.
    state_bytes : int
        Bytes of one state.
    rows : tuple of Row
        One a schedule.
    memory : int or None
        The budget in bytes, if there is one.
    simulation_seconds : float or None
        Time of N plain steps, if that was measured.
    schedules : tuple of Schedule
        The schedules of the rows.
    """

    steps: int
    state_bytes: int
    rows: tuple[Row, ...]
    memory: int | None = None
    simulation_seconds: float | None = None
    schedules: tuple[Schedule, ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int | None = None) -> str:
        """The table as aligned text.

        Parameters
        ----------
        width : int, optional
            Columns of the terminal: those of the table that do not fit are put below, with the schedules again.

        Returns
        -------
        str
        """
        return f"{self._title()}\n{text(self._cells(), width)}"

    def _title(self) -> str:
        title = f"{self.steps:,} steps, a state of {format_bytes(self.state_bytes)}"
        return title if self.simulation_seconds is None else f"{title}; one simulation takes {self.simulation_seconds:.3g} s"

    def _repr_html_(self) -> str:
        return html(self._cells(), self._title())

    def _repr_markdown_(self) -> str:
        return f"{self._title()}\n\n{self.to_markdown()}"

    def to_markdown(self) -> str:
        """The table in Markdown.

        Returns
        -------
        str
        """
        return markdown(self._cells())

    def to_dict(self) -> dict[str, Any]:
        """The table in plain Python values, for JSON and the like.

        Returns
        -------
        dict
            ``steps``, ``state_bytes``, ``memory``, ``simulation_seconds``, and ``rows``, a list of one dict a row.
        """
        table = {name: getattr(self, name) for name in ("steps", "state_bytes", "memory", "simulation_seconds")}
        return table | {"rows": [asdict(row) for row in self.rows]}

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw memory against work, both logarithmic: a point a row, a curve for what its schedule does with other slots.

        What was measured is hollow: peak memory against time. The grey area below the binomial curve is what no schedule can
        reach that saves states, all in memory (Griewank & Walther 2000); `Mixed`, which saves records too, and the disk can.

        Parameters
        ----------
        path : str or Path, optional
            Where to write the picture; the ending says the format (png, svg, pdf).

        Returns
        -------
        matplotlib.axes.Axes
            Its ``figure`` can be changed and saved.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        return plot_tradeoff(self, path)

    def _cells(self) -> list[tuple[str, ...]]:
        """Headings and rows; the column of the disk only if something is there."""
        measured = MEASURED if any(row.measured for row in self.rows) else ()
        table: list[tuple[str, ...]] = [(*HEADINGS, *measured), *(row._cells() for row in self.rows)]
        if any(row.disk_bytes for row in self.rows):
            return table
        return [cells[:DISK] + cells[DISK + 1 :] for cells in table]


def compare(*, steps: int, state_bytes: Any, schedules: Iterable[Schedule] | None = None, memory: float | str | None = None) -> Tradeoff:
    """Count what schedules need for a chain, by executing them on integers.

    Parameters
    ----------
    steps : int
        Length N of the chain, from 1 to 10^7.
    state_bytes : number, str, or pytree
        Size of one state, for instance ``8_000_000`` or ``"8 MB"``; or a state, an array or a container of leaves, which is measured.
    schedules : iterable of Schedule, optional
        What to compare. The default is StoreAll(), CTZ(), and Revolve with as many, and with twice as many, states as
        CTZ() saves.
    memory : number or str, optional
        A budget, for instance ``"2 GB"``: the schedule that `plan` chooses for it is compared too.

    Returns
    -------
    Tradeoff

    Raises
    ------
    ValueError, TypeError
        If an argument cannot be used.

    Examples
    --------
    >>> print(compare(steps=1000, state_bytes="8 MB"))
    1,000 steps, a state of 8 MB
    schedule                saved states  memory  advances   work
    StoreAll()                     1,000    8 GB       999  2.00x
    CTZ(refill='binomial')            11   88 MB     3,781  4.78x
    Revolve(slots=11)                 11   88 MB     3,545  4.55x
    Revolve(slots=22)                 22  176 MB     2,700  3.70x
    """
    try:
        return compared(steps, state_bytes, schedules, memory, "compare")
    except Exception as error:
        trim(error)
        raise


def compared(steps: int, state_bytes: Any, schedules: Iterable[Schedule] | None, memory: float | str | None, where: str) -> Tradeoff:
    """What `compare` returns; errors name the function `where`."""
    steps = whole_number(steps, where=where, argument="steps", least=1, hint="give the length of the chain")
    if steps > LONGEST:
        raise ValueError(
            f"{where}: steps must be at most {LONGEST}, because every action is counted, got {steps}; "
            "checkpoint.schedules.advances(steps, slots) gives the advances of Revolve for any length"
        )
    size = state_size(state_bytes, where)
    if schedules is None:
        slots = CTZ().limit(steps)
        schedules = (StoreAll(), CTZ(), Revolve(slots), Revolve(2 * slots))
    schedules = several(schedules, where)
    if memory is not None:
        memory = parse_bytes(memory, where, "memory")
        chosen = plan(steps, size, memory).schedule
        if chosen not in schedules:
            schedules.append(chosen)
    return Tradeoff(steps, size, tuple(_row(schedule, steps, size) for schedule in schedules), memory, schedules=tuple(schedules))


def several(schedules: Iterable[Schedule], where: str) -> list[Schedule]:
    """Schedules, one or several, as a list, or an error that says what they are to be."""
    given = list(schedules) if isinstance(schedules, Iterable) else [schedules]
    for schedule in given:
        if not isinstance(schedule, Schedule):
            raise TypeError(f"{where}: schedules must be Schedule values such as [CTZ(), Revolve(20)], got {schedule!r}")
    return given


def _row(schedule: Schedule, steps: int, size: int) -> Row:
    counts = simulate(schedule, steps)
    work = (counts.advances + 1 + counts.pulls) / steps
    on_disk = len(schedule.on_disk(steps))
    in_memory = counts.peak_states - on_disk
    return Row(str(schedule), counts.peak_states, in_memory * size, counts.advances, work, on_disk * size)
