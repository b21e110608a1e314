"""Memory against recomputation: what each schedule needs for a given chain."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from statistics import median
from typing import Any

from dualad.support.byte_sizes import format_bytes, parse_bytes
from dualad.support.callers import trimmed

from ..schedules import CTZ, Revolve, Schedule, StoreAll
from ..schedules.machine import simulate
from ..support.checks import amount, whole_number
from ..support.costs import RECORD_COST
from ..support.tables import html, markdown, text
from ..sweep.plan import plan, state_size
from .draw import plot_tradeoff

COMPARED_STEPS = 10**7  # every action is counted: some seconds for a million steps


@dataclass(frozen=True)
class Measured:
    """Measured costs of one schedule, from `profile`.

    Attributes
    ----------
    first_seconds, reverse_seconds : times of the two sweeps.
    work : both together, as a multiple of the time of one simulation.
    peak_bytes : the most that Python and NumPy had allocated at one moment, beyond what was there before: saved states, the working state,
        the cotangent, and what a step and a pull need.
    advances : plain calls of the step, that to x_N included, which `Row.advances` leaves out.
    saves, loads : states copied into, and out of, the storage.
    peak_states : the most that was saved at one moment.
    """

    first_seconds: float
    reverse_seconds: float
    work: float
    peak_bytes: int
    advances: int
    saves: int
    loads: int
    peak_states: int


@dataclass(frozen=True)
class Row:
    """One schedule in a `Tradeoff`.

    Attributes
    ----------
    schedule : the schedule.
    states : most states saved at one moment.
    bytes : bytes of those that are in memory.
    advances : plain steps, first sweep to x_{N-1} and recomputations.
    work : a multiple of one simulation, which is N plain steps: (advances + 1 + pull_cost (N - R) + record_cost R) / N, with the step to
        x_N, and R steps recorded in the first sweep (`Mixed` only). See `compare` for the two costs.
    disk_bytes : bytes of saved states that the schedule puts on disk.
    records : steps recorded in the first sweep; their pullbacks stay in memory until they are pulled.
    measured : what it took in a real run, from `profile`.
    """

    schedule: str
    states: int
    bytes: int
    advances: int
    work: float
    disk_bytes: int = 0
    records: int = 0
    measured: Measured | None = None


#: the columns of a table: an attribute of a row, or of what was measured, and how it is written
COLUMNS: dict[str, tuple[str, Callable[..., str]]] = {
    "schedule": ("schedule", str),
    "saved states": ("states", "{:,}".format),
    "memory": ("bytes", format_bytes),
    "disk": ("disk_bytes", format_bytes),
    "advances": ("advances", "{:,}".format),
    "work": ("work", "{:.2f}x".format),
}
MEASURED: dict[str, tuple[str, Callable[..., str]]] = {
    "first sweep": ("first_seconds", "{:.3g} s".format),
    "reverse sweep": ("reverse_seconds", "{:.3g} s".format),
    "time": ("work", "{:.2f}x".format),
    "peak memory": ("peak_bytes", format_bytes),
    "saves": ("saves", "{:,}".format),
    "loads": ("loads", "{:,}".format),
}


@dataclass(frozen=True)
class Tradeoff:
    """A table of schedules, from `compare` or `profile`; ``str()`` gives it as aligned text.

    Attributes
    ----------
    steps : length N of the chain.
    state_bytes : bytes of one state.
    rows : one a schedule.
    memory : the budget in bytes, if there is one.
    pull_cost, record_cost : the cost of pulls in `Row.work`, in plain steps; see `compare`.
    costs : where the two come from: ``"assumed"``, ``"given"`` or ``"measured"``.
    simulation_seconds : time of N plain steps, if that was measured.
    schedules : the schedules of the rows.
    """

    steps: int
    state_bytes: int
    rows: tuple[Row, ...]
    memory: int | None = None
    pull_cost: float = 1.0
    record_cost: float = 2 * RECORD_COST
    costs: tuple[str, str] = ("assumed", "assumed")
    simulation_seconds: float | None = None
    schedules: tuple[Schedule, ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int | None = None) -> str:
        """The table as aligned text; columns that do not fit into the `width` of a terminal are put below, with the schedules again."""
        return f"{self._title()}\n{text(self._cells(), width)}"

    def _title(self) -> str:
        title = f"{self.steps:,} steps, a state of {format_bytes(self.state_bytes)}"
        if self.simulation_seconds is not None:
            title += f"; one simulation takes {self.simulation_seconds:.3g} s"
        records = any(schedule.records for schedule in self.schedules)
        pull, record = self.costs
        if records or pull != "assumed":
            title += f"; a pull counts as {self.pull_cost:.3g} step{'s' * (self.pull_cost != 1)} ({pull})"
        return f"{title}, a recorded step as {self.record_cost:.3g} ({record})" if records else title

    def _repr_html_(self) -> str:
        return html(self._cells(), self._title())

    def _repr_markdown_(self) -> str:
        return f"{self._title()}\n\n{self.to_markdown()}"

    def to_markdown(self) -> str:
        """The table in Markdown."""
        return markdown(self._cells())

    def to_dict(self) -> dict[str, Any]:
        """The table in plain Python values, for JSON and the like: the attributes by name, ``rows`` as a list of one dict a row."""
        names = ("steps", "state_bytes", "memory", "pull_cost", "record_cost", "costs", "simulation_seconds")
        table = {name: getattr(self, name) for name in names}
        return table | {"rows": [asdict(row) for row in self.rows]}

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw memory against work, both logarithmic: a point a row, a curve for what its schedule does with other slots.

        What was measured is hollow: peak memory against time. The grey area below the binomial curve is what no schedule can
        reach that saves states, all in memory (Griewank & Walther 2000); `Mixed`, which records steps too, and the disk can.

        Parameters
        ----------
        path : where to write the picture; the ending says the format (png, svg, pdf).

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

    def _cells(self) -> list[list[str]]:
        """Headings and rows; the column of the disk only if something is there."""
        columns = {name: column for name, column in COLUMNS.items() if name != "disk" or any(row.disk_bytes for row in self.rows)}
        measured = MEASURED if any(row.measured for row in self.rows) else {}
        both = lambda row: [(row, columns), *([(row.measured, measured)] if row.measured else [])]
        table = [[say(getattr(of, name)) for of, those in both(row) for name, say in those.values()] for row in self.rows]
        return [[*columns, *measured], *table]


@trimmed
def compare(
    *,
    steps: int,
    state_bytes: Any,
    schedules: Iterable[Schedule] | None = None,
    memory: float | str | None = None,
    pull_cost: float | None = None,
    record_cost: float | None = None,
) -> Tradeoff:
    """Count what schedules need for a chain, by executing them on integers.

    Parameters
    ----------
    steps : length N of the chain, from 1 to 10^7.
    state_bytes : size of one state, for instance ``8_000_000`` or ``"8 MB"``; or a state, an array or a container of leaves, which is
        measured.
    schedules : what to compare. The default is StoreAll(), CTZ(), and Revolve with as many, and with twice as many, states as CTZ() saves.
    memory : a budget, for instance ``"2 GB"``: the schedule that `plan` chooses for it is compared too.
    pull_cost : time to record a step and pull it back at once, in plain steps. By default 1, which counts evaluations of the step.
        `profile` measures it, from less than 1 (compiled steps) to 50 (steps of a few numbers).
    record_cost : time to record a step in the first sweep and pull it back later, in plain steps (`Mixed`). By default 4/3 of the time to
        run the step, to run it again and to pull it back, 4/3 (1 + pull_cost): pullbacks are larger than states.

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

    With the costs that `profile` has measured:

    >>> print(compare(steps=1000, state_bytes="8 MB", schedules=[StoreAll(), CTZ()], pull_cost=3.2))
    1,000 steps, a state of 8 MB; a pull counts as 3.2 steps (given)
    schedule                saved states  memory  advances   work
    StoreAll()                     1,000    8 GB       999  4.20x
    CTZ(refill='binomial')            11   88 MB     3,781  6.98x
    """
    pull_cost, record_cost = (
        cost if cost is None else amount(cost, "plain steps", where="compare", argument=argument)
        for argument, cost in (("pull_cost", pull_cost), ("record_cost", record_cost))
    )
    table = compare_schedules(steps, state_bytes, schedules, memory, "compare")
    return with_costs(table, pull_cost, record_cost, "given")


def compare_schedules(
    steps: int, state_bytes: Any, schedules: Iterable[Schedule] | None, memory: float | str | None, where: str
) -> Tradeoff:
    """Return the table of `compare`; errors name the function `where`."""
    steps = whole_number(steps, where=where, argument="steps", least=1, hint="give the length of the chain")
    if steps > COMPARED_STEPS:
        raise ValueError(
            f"{where}: steps must be at most {COMPARED_STEPS}, because every action is counted, got {steps}; "
            "checkpoint.schedules.advances(steps, slots) gives the advances of Revolve for any length"
        )
    size = state_size(state_bytes, where)
    if schedules is None:
        slots = CTZ().limit(steps)
        schedules = (StoreAll(), CTZ(), Revolve(slots), Revolve(2 * slots))
    schedules = list(schedules) if isinstance(schedules, Iterable) else [schedules]
    for schedule in schedules:
        if not isinstance(schedule, Schedule):
            raise TypeError(f"{where}: schedules must be Schedule values such as [CTZ(), Revolve(20)], got {schedule!r}")
    if memory is not None:
        memory = parse_bytes(memory, where, "memory")
        chosen = plan(steps, size, memory).schedule
        if chosen not in schedules:
            schedules.append(chosen)
    rows = tuple(row_of(schedule, steps, size) for schedule in schedules)
    return with_costs(Tradeoff(steps, size, rows, memory, schedules=tuple(schedules)))


def with_costs(table: Tradeoff, pull: float | None = None, record: float | None = None, source: str = "") -> Tradeoff:
    """The table with the work that these costs give; those that are None are assumed."""
    costs = "assumed" if pull is None else source, "assumed" if record is None else source
    pull = 1.0 if pull is None else pull
    record = RECORD_COST * (1 + pull) if record is None else record
    steps = table.steps
    works = [(row.advances + 1 + pull * (steps - row.records) + record * row.records) / steps for row in table.rows]
    rows = tuple(replace(row, work=work) for row, work in zip(table.rows, works, strict=True))
    return replace(table, rows=rows, pull_cost=pull, record_cost=record, costs=costs)


def measured_costs(table: Tradeoff) -> Tradeoff:
    """The table with the costs that its measured times say: medians over its rows."""
    steps = table.steps
    rest = [(row, row.measured.work * steps - row.advances - 1) for row in table.rows if row.measured is not None]
    pulls = [left / steps for row, left in rest if not row.records]
    pull = max(median(pulls), 0.0) if pulls else None
    records = [(left - (1.0 if pull is None else pull) * (steps - row.records)) / row.records for row, left in rest if row.records]
    return with_costs(table, pull, max(median(records), 0.0) if records else None, "measured")


def row_of(schedule: Schedule, steps: int, size: int) -> Row:
    counts = simulate(schedule, steps)
    on_disk = len(schedule.on_disk(steps))
    in_memory = counts.peak_states - on_disk
    return Row(str(schedule), counts.peak_states, in_memory * size, counts.advances, 0.0, on_disk * size, counts.records)
