"""Pictures of what schedules do and cost, with matplotlib."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from .actions import Advance, Drop, Load, Record, Reverse, Save
from .checks import whole_number
from .machine import simulate
from .schedules import Online, Periodic, Schedule, advances
from .units import format_bytes

__all__ = ["check_picture", "plot_schedule", "plot_tradeoff"]

LONGEST = 2000  # steps in a picture over time
EXECUTED = 2_000_000  # steps of all chains that are run through on integers for one curve
GREY, SWEEP, AGAIN, PULL = "0.55", "#1f77b4", "#ff7f0e", "#d62728"
COLOURS = {
    "CTZ": "#d62728",
    "Revolve": "#1f77b4",
    "Online": "#2ca02c",
    "Periodic": "#9467bd",
    "Tiered": "#8c564b",
    "Mixed": "#17becf",
    "StoreAll": "0.25",
}
MARKERS = {"CTZ": "*", "Revolve": "o", "Online": "s", "Periodic": "^", "Tiered": "D", "Mixed": "v", "StoreAll": "P"}


def check_picture(path: str | PathLike[str]) -> None:
    """Raise at once what would go wrong when a picture is written, which may be after a long computation.

    Parameters
    ----------
    path : str or Path
        Where to write it.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the ending of the name is of no format that matplotlib writes.
    FileNotFoundError
        If the folder is not there.
    """
    figure, _ = _figure("a plot", (1, 1))
    path, formats = Path(path), figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        raise ValueError(f"plot: the name of a picture must end in its format, such as .png, .svg or .pdf, got {str(path)!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"plot: there is no folder {str(path.parent)!r} for {path.name!r}; make it first")


def plot_schedule(schedule: Schedule, steps: int, path: str | PathLike[str] | None = None) -> Any:
    """Draw what a schedule does with a chain over time: which state is worked on, and which states (or records) are saved.

    Parameters
    ----------
    schedule : Schedule
        What to draw.
    steps : int
        Length N of the chain, from 1 to 2000.
    path : str or Path, optional
        Where to write the picture; the ending says the format (png, svg, pdf).

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError, TypeError
        If `steps` is not such a number.

    Examples
    --------
    >>> from checkpoint.schedules import Revolve
    >>> plot_schedule(Revolve(3), 5000)
    Traceback (most recent call last):
    ...
    ValueError: plot_schedule: steps must be at most 2000 to be seen, got 5000
    """
    steps = whole_number(steps, where="plot_schedule", argument="steps", least=1, hint="give the length of the chain")
    if steps > LONGEST:
        raise ValueError(f"plot_schedule: steps must be at most {LONGEST} to be seen, got {steps}")
    counts = simulate(schedule, steps)
    figure, axes = _figure("plot_schedule", (8, 4.5))
    history = _History()
    for action in schedule.forward(steps):
        history.add(action)
    turn = history.now
    for action in schedule.reverse(steps, sorted(history.saved)):
        history.add(action)
    width = max(0.8, min(1.6, 150 / steps))
    axes.hlines(*history.columns("held"), color="0.8", lw=width, label="saved", zorder=1)
    for name, colour, label in (("first", SWEEP, "first sweep"), ("again", AGAIN, "advanced again"), ("pulled", PULL, "reversed")):
        lines = [((t0, k0), (t1, k1)) for t0, t1, k0, k1 in getattr(history, name)]
        _collect(axes, lines, color=colour, lw=width, label=label, clip_on=False, zorder=3)
    if steps <= 100:
        axes.plot(*zip(*history.saves, strict=True), ".", color="0.3", ms=4, zorder=4, label="save")
    axes.axvline(turn, color=GREY, lw=0.6, ls=":")
    axes.set(xlim=(0, history.now), ylim=(-0.02 * steps, 1.02 * steps))
    axes.set(xlabel="time, in evaluations of the step", ylabel="index of the state")
    peak = f"at most {counts.peak_states} states saved"
    axes.set_title(f"{schedule}, {steps} steps: {counts.advances} advances, {peak}", fontsize=10)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=5, fontsize=8, frameon=False)
    return _saved(figure, path)


def plot_tradeoff(table: Any, path: str | PathLike[str] | None = None) -> Any:
    """Draw memory against work on logarithmic axes: see `Tradeoff.plot`.

    Parameters
    ----------
    table : Tradeoff
    path : str or Path, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    steps, size = table.steps, max(table.state_bytes, 1)
    figure, axes = _figure("Tradeoff.plot", (8, 5))
    axes.set(xscale="log", yscale="log")
    families = dict.fromkeys(row.schedule.partition("(")[0] for row in table.rows)
    bound = [(slots * size, _work(steps, advances(steps, slots))) for slots in _slots(steps)]
    axes.fill_between(*zip(*bound, strict=True), 1, color="0.93", zorder=0)
    axes.plot(*zip(*bound, strict=True), color="0.78", lw=4, label="least possible with states in memory (binomial)", zorder=1)
    for family in families:
        points = _curve(family, steps)
        if points:
            curve = [(states * size, _work(steps, again)) for states, again in points]
            axes.plot(
                *zip(*curve, strict=True),
                color=COLOURS[family],
                lw=1,
                alpha=0.6,
                zorder=2,
                drawstyle="steps-post" if family == "Periodic" else "default",
            )
    for number, row in enumerate(table.rows):
        family = row.schedule.partition("(")[0]
        colour = COLOURS.get(family, f"C{number}")
        disk = f" + {format_bytes(row.disk_bytes)} on disk" if row.disk_bytes else ""
        label = f"{row.schedule}: {format_bytes(row.bytes)}{disk}, {row.work:.3g}x"
        star = family == "CTZ"
        axes.plot(
            [row.bytes],
            [row.work],
            MARKERS.get(family, "o"),
            color=colour,
            ms=11 if star else 7,
            mec="white",
            mew=0.6,
            label=label,
            zorder=5 if star else 4,
        )
        if row.measured is not None:
            at = row.measured.peak_bytes, row.measured.work
            axes.plot([row.bytes, at[0]], [row.work, at[1]], color=colour, lw=0.6, ls=":", zorder=3)
            axes.plot(*at, MARKERS.get(family, "o"), mfc="white", mec=colour, ms=9 if star else 6, zorder=4)
    if table.memory is not None:
        axes.axvline(table.memory, color="black", lw=0.8, ls="--", zorder=1, label=f"budget: {format_bytes(table.memory)}")
    measured = [row.measured for row in table.rows if row.measured is not None]
    if measured:
        axes.plot([], [], "o", mfc="white", mec="black", ms=6, label="measured: peak memory, time of both sweeps")
    works = [row.work for row in (*table.rows, *measured)]
    furthest = max(size * steps, *(result.peak_bytes for result in measured), 0)
    axes.set(xlim=(0.8 * size, 1.3 * furthest), ylim=(1.6, max(10, 2.5 * max(works))))
    _ticks(axes, size)
    axes.set(
        xlabel="memory for saved states",
        ylabel="evaluations of the step, or time, in simulations" if measured else "evaluations of the step, in simulations",
    )
    axes.set_title(f"{steps:,} steps, a state of {format_bytes(table.state_bytes)}", fontsize=10)
    axes.grid(which="major", color="0.9", lw=0.6)
    axes.legend(loc="upper right", fontsize=8, framealpha=0.95)
    return _saved(figure, path)


class _History:
    """Collects actions over time; one evaluation of the step takes one unit."""

    def __init__(self) -> None:
        self.now = 0
        self.saved: dict[int, int] = {}  # since when
        self.recorded: set[int] = set()
        self.furthest = 0
        self.first: list[tuple[int, int, int, int]] = []
        self.again: list[tuple[int, int, int, int]] = []
        self.pulled: list[tuple[int, int, int, int]] = []
        self.held: list[tuple[int, int, int]] = []
        self.saves: list[tuple[int, int]] = []

    def add(self, action: Any) -> None:
        match action:
            case Save():
                self.saved[action.index] = self.now
                self.saves.append((self.now, action.index))
            case Drop():
                self.held.append((action.index, self.saved.pop(action.index), self.now))
            case Advance():
                line = self.now, self.now + action.stop - action.start, action.start, action.stop
                (self.first if action.start >= self.furthest else self.again).append(line)
                self.furthest = max(self.furthest, action.stop)
                self.now = line[1]
            case Record():
                self.add(Save(action.index))
                self.add(Advance(action.index, action.index + 1))
                self.recorded.add(action.index)
            case Reverse():
                evaluated = action.index not in self.recorded
                if not evaluated:
                    self.recorded.remove(action.index)
                    self.add(Drop(action.index))
                self.pulled.append((self.now, self.now + evaluated, action.index + 1, action.index))
                self.now += evaluated
            case Load():
                pass  # takes no evaluation

    def columns(self, name: str) -> list[tuple[int, ...]]:
        return list(zip(*getattr(self, name), strict=True))


def _curve(family: str, steps: int) -> list[tuple[int, int]]:
    """(states, advances) of a family of schedules over its slots, where it has any."""
    if family == "Periodic":
        return sorted((Periodic(every=every).limit(steps), _twice(steps, every)) for every in _slots(steps) if every**2 <= steps)
    if family == "Revolve":
        return [(slots, advances(steps, slots)) for slots in _slots(steps)]
    if family == "Online":
        slots = [slots for slots in _slots(steps) if 2 < slots <= max(steps // 10, 4)]
        apart = -(-len(slots) // min(max(EXECUTED // steps, 2), 24)) or 1
        return [(count, simulate(Online(count), steps).advances) for count in slots[::apart]]
    return []


def _twice(steps: int, every: int) -> int:
    """Advances of Periodic(every), as its docstring says."""
    segments = -(-steps // every)
    return 2 * steps - (steps - (segments - 1) * every) - segments


def _slots(steps: int) -> list[int]:
    """Numbers from 1 to N, evenly spaced on a logarithmic axis."""
    return sorted({round(steps ** (i / 300)) for i in range(301)})


def _work(steps: int, again: int) -> float:
    return (again + 1 + steps) / steps


def _figure(where: str, size: tuple[float, float]) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"{where} needs matplotlib; install it with: pip install 'dualad[plot]'") from error
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _collect(axes: Any, lines: list[Any], **style: Any) -> None:
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(lines, capstyle="round", **style))


def _ticks(axes: Any, size: int) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    tick: Callable[..., str] = lambda value, position: format_bytes(round(value))
    axes.xaxis.set_major_formatter(FuncFormatter(tick))
    axes.yaxis.set_major_locator(LogLocator(10, (1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}x"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    above = axes.secondary_xaxis("top", functions=(lambda value: value / size, lambda value: value * size))
    above.set_xlabel("saved states", fontsize=9)
    above.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,.0f}"))


def _saved(figure: Any, path: str | PathLike[str] | None) -> Any:
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
