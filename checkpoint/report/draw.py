"""Pictures of what schedules do over time, and of what they cost: in text, and with matplotlib."""

from collections.abc import Callable
from math import log
from os import PathLike
from pathlib import Path
from typing import Any

from dualad.support.byte_sizes import format_bytes

from ..schedules import Online, Periodic, Schedule, advances
from ..schedules.actions import Action, Advance, Drop, Load, Record, Reverse, Save
from ..schedules.machine import Cursor, executed, simulate
from ..schedules.schedule import check_schedule
from ..support.checks import whole_number

LEGEND = "X saved   + loaded   - advanced over   ^ working state"
RECORDED = "   R recorded"
DRAWN_STEPS = 120  # that a terminal shows
LABEL = 13  # columns before those of the states
WIDTH, HEIGHT, MARGIN = 640, 320, 36  # of the picture in a notebook


class Drawing(str):
    """The text of a picture; a notebook shows the schedule in space and time instead, without matplotlib: see `plot_schedule`."""

    schedule: Schedule
    steps: int

    def _repr_svg_(self) -> str:
        history = History(self.schedule, self.steps)
        across = lambda time: MARGIN + (WIDTH - MARGIN - 10) * time / max(history.now, 1)
        up = lambda index: HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * index / self.steps
        line = lambda t0, k0, t1, k1, style: (
            f'<line x1="{across(t0):.1f}" y1="{up(k0):.1f}" x2="{across(t1):.1f}" y2="{up(k1):.1f}" {style}/>'
        )
        say = lambda x, y, words, anchor="middle", style="": f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{words}</text>'
        parts = [line(t0, k, t1, k, 'stroke="#b8b8b8" stroke-width="1.5"') for k, t0, t1 in history.visible()]
        for name, lines in history.lines.items():
            style = f'stroke="{LINES[name]}" stroke-width="{2.5 if name == "reversed" else 1.8}" stroke-linecap="round"'
            parts += [line(t0, k0, t1, k1, style) for (t0, k0), (t1, k1) in lines]
        parts += [f'<circle cx="{across(t):.1f}" cy="{up(k):.1f}" r="2.5" fill="#4d4d4d"/>' for t, k in history.saves]
        parts += [say(MARGIN - 6, up(k) + 4, k, "end") for k in sorted({0, self.steps // 2, self.steps})]
        parts += [say(across(t), HEIGHT - MARGIN + 16, t) for t in sorted({0, history.first_end, history.now})]
        parts.append(say(WIDTH / 2, 16, self.splitlines()[0], style=' font-weight="bold"'))
        words = ["state over time (evaluations of the step): ", *(f'<tspan fill="{c}">{name}</tspan>, ' for name, c in LINES.items())]
        parts.append(say(WIDTH / 2, HEIGHT - 4, "".join(words) + '<tspan fill="#8a8a8a">saved</tspan>'))
        size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
        return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>"])


def draw(schedule: Schedule, steps: int) -> Drawing:
    """Draw what a schedule does with a short chain: one row for the first sweep, then one for every step reversed.

    Parameters
    ----------
    schedule : what to draw.
    steps : length N of the chain, from 1 to 120.

    Returns
    -------
    Drawing
        A text; a notebook shows it as a picture (SVG) in space and time.

    Raises
    ------
    ValueError, TypeError
        If `steps` is not such a number, or `schedule` no schedule.

    Examples
    --------
    >>> from checkpoint.schedules import Revolve
    >>> print(draw(Revolve(2), 6))
    Revolve(slots=2), 6 steps: 8 advances, at most 2 states saved
    X saved   + loaded   - advanced over   ^ working state
    <BLANKLINE>
                 0 1 2 3 4 5
    first sweep  X-----X---^
    reverse 5    X     X   ^
    reverse 4    X     +-^
    reverse 3    X     ^
    reverse 2    +-X-^
    reverse 1    X ^
    reverse 0    ^
    """
    check_schedule(schedule, "draw")
    hint = "give the length of the chain"
    steps = whole_number(steps, where="draw", argument="steps", least=1, hint=hint)
    if steps > DRAWN_STEPS:
        raise ValueError(
            f"draw: steps must be at most {DRAWN_STEPS} to be readable, got {steps}; a plot shows up to {PLOTTED_STEPS}, "
            "compare gives the counts of any"
        )
    cursor = Cursor(steps, str(schedule), schedule.limit(steps))
    rows: list[str] = []
    loaded: int | None = None
    path: set[int] = set()  # columns advanced over; state k stands in column 2k
    for action in executed(schedule, cursor):
        match action:
            case Load(k):
                loaded = k
            case Advance(start, stop):
                path.update(range(2 * start, 2 * stop))
            case Record(k):
                path.add(2 * k + 1)
            case None | Reverse():
                label, here = ("first sweep", steps - 1) if action is None else (f"reverse {action.index}", action.index)
                rows.append(row_of(label, here, cursor, path, loaded))
                path, loaded = set(), None
    title = f"{schedule}, {steps} steps: {cursor.advances} advances, at most {cursor.peak} states saved"
    legend = LEGEND + RECORDED if schedule.records else LEGEND
    drawing = Drawing("\n".join([title, legend, "", *scale(steps), *rows]))
    drawing.schedule, drawing.steps = schedule, steps
    return drawing


def scale(steps: int) -> list[str]:
    """Indices of the states, digits below one another."""
    width = len(str(steps - 1))
    digits = [f"{k:>{width}}" for k in range(steps)]
    return [" " * LABEL + " ".join(digit[row] for digit in digits) for row in range(width)]


def row_of(label: str, here: int, cursor: Cursor, path: set[int], loaded: int | None) -> str:
    """Return the row of what was done up to the working state x_here."""
    cells = [" "] * (2 * (cursor.steps or 0))
    for column in path:
        cells[column] = "-"
    cells[2 * here] = "^"
    for k in cursor.saved:
        cells[2 * k] = "X"
    for k in cursor.recorded:
        cells[2 * k] = "R"
    if loaded is not None and path:
        cells[2 * loaded] = "+"
    return (label.ljust(LABEL) + "".join(cells)).rstrip()


# --- with matplotlib -------------------------------------------------------------------------------------------------------------


PLOTTED_STEPS = 2000  # that can be told apart
COUNTED_STEPS = 2_000_000  # of all chains that are executed on integers for one curve
TOLD_APART = 400  # evaluations in a picture
LINES = {"first sweep": "#0072B2", "advanced again": "#E69F00", "reversed": "#1a1a1a"}  # what the working state goes through: colours

#: colours, told apart with every kind of colour vision (Okabe & Ito 2008), and markers
STYLES = {
    "CTZ": ("#D55E00", "*"),
    "Revolve": ("#0072B2", "o"),
    "Online": ("#009E73", "s"),
    "Periodic": ("#CC79A7", "^"),
    "Tiered": ("#E69F00", "D"),
    "Mixed": ("#56B4E9", "v"),
    "StoreAll": ("0.1", "P"),
}


class History:
    """The times at which states are saved, and what the working state goes through; records count as saved states.
    One evaluation of the step takes one unit of time."""

    def __init__(self, schedule: Schedule, steps: int) -> None:
        self.now = self.first_end = furthest = 0
        self.saves: list[tuple[int, int]] = []  # time and index
        self.intervals: list[tuple[int, int, int]] = []  # index, begin and end of what was saved
        #: start and end, in time and index, of what the working state goes through, by what it is for
        self.lines: dict[str, list[tuple[tuple[int, int], tuple[int, int]]]] = {name: [] for name in LINES}
        self.since: dict[tuple[type[Action], int], int] = {}
        for action in executed(schedule, Cursor(steps)):
            match action:
                case None:
                    self.first_end = self.now
                case Save(k):
                    self.begin(Save, k)
                case Drop(k):
                    self.end(Save, k)
                case Record(k) | Advance(k):
                    if type(action) is Record:
                        self.begin(Record, k)
                    stop = action.stop if type(action) is Advance else k + 1
                    self.move("first sweep" if k >= furthest else "advanced again", k, stop, stop - k)
                    furthest = max(furthest, stop)
                case Reverse(k):
                    recorded = (Record, k) in self.since
                    if recorded:
                        self.end(Record, k)
                    self.move("reversed", k + 1, k, not recorded)

    def begin(self, kind: type[Action], index: int) -> None:
        self.since[kind, index] = self.now
        self.saves.append((self.now, index))

    def end(self, kind: type[Action], index: int) -> None:
        self.intervals.append((index, self.since.pop((kind, index)), self.now))

    def move(self, name: str, start: int, stop: int, evaluations: int) -> None:
        begin, self.now = self.now, self.now + evaluations
        self.lines[name].append(((begin, start), (self.now, stop)))

    def visible(self) -> list[tuple[int, int, int]]:
        """Return the intervals that a picture can show: of long chains, of states saved long enough to be seen."""
        return [line for line in self.intervals if line[2] - line[1] >= self.now // TOLD_APART]


def check_picture(path: str | PathLike[str]) -> None:
    """Raise now what would fail when a picture is written to `path`: no matplotlib, an unknown ending, a missing folder."""
    figure, _ = figure_of("a plot", (1, 1))
    path, formats = Path(path), figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        known = ", ".join(f".{ending}" for ending in sorted(formats))
        raise ValueError(f"plot: the name of a picture must end in its format, one of {known}; got {str(path)!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"plot: there is no folder {str(path.parent)!r} for {path.name!r}; make it first")


def plot_schedule(schedule: Schedule, steps: int, path: str | PathLike[str] | None = None) -> Any:
    """Draw what a schedule does with a chain over time: which state is worked on, and which states (or records) are saved.

    Parameters
    ----------
    schedule : what to draw.
    steps : length N of the chain, from 1 to 2000.
    path : where to write the picture; the ending says the format (png, svg, pdf).

    Returns
    -------
    matplotlib.axes.Axes
        Its ``figure`` can be changed and saved.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError, TypeError
        If `steps` is not such a number, or `schedule` no schedule.

    Examples
    --------
    >>> from checkpoint.schedules import Revolve
    >>> plot_schedule(Revolve(3), 5000)
    Traceback (most recent call last):
    ...
    ValueError: plot_schedule: steps must be at most 2000 to be seen, got 5000
    """
    check_schedule(schedule, "plot_schedule")
    steps = whole_number(steps, where="plot_schedule", argument="steps", least=1, hint="give the length of the chain")
    if steps > PLOTTED_STEPS:
        raise ValueError(f"plot_schedule: steps must be at most {PLOTTED_STEPS} to be seen, got {steps}")
    counts = simulate(schedule, steps)
    axes = figure_of("plot_schedule", (6.4, 4.0))[1]
    from matplotlib.collections import LineCollection

    history = History(schedule, steps)
    width = max(1.0, min(1.8, 150 / steps))
    shown = history.visible()
    label = (
        "saved" if len(shown) == len(history.intervals) else f"saved: the {len(shown):,} of {len(history.intervals):,} states saved longest"
    )
    axes.hlines(*zip(*shown, strict=True), color="0.72", lw=max(0.6, 0.7 * width), label=label, zorder=1)
    for name, lines in history.lines.items():
        style = {"color": LINES[name], "lw": 1.3 * width if name == "reversed" else width, "label": name}
        axes.add_collection(LineCollection(lines, capstyle="round", clip_on=False, zorder=3, **style))
    at = {(begin, index) for index, begin, _ in shown}
    saves = [save for save in history.saves if save in at]
    axes.plot(*zip(*saves, strict=True), "o", color="0.3", mec="white", mew=0.4, ms=4 if steps <= 100 else 2.5, zorder=4, label="save")
    axes.axvline(history.first_end, color="0.55", lw=0.8, ls=":")
    axes.set(xlim=(0, history.now), ylim=(-0.02 * steps, 1.02 * steps))
    axes.set(xlabel="time, in evaluations of the step", ylabel="index of the state")
    axes.set_title(f"{schedule}, {steps} steps\n{counts.advances} advances, at most {counts.peak_states} states saved", fontsize=9)
    axes.xaxis.get_major_locator().set_params(integer=True)
    add_legend(axes, 3 if label != "saved" else 5)
    return save_figure(axes, path)


def plot_tradeoff(table: Any, path: str | PathLike[str] | None = None) -> Any:
    """Draw memory against work on logarithmic axes and return the Axes: see `Tradeoff.plot`."""
    steps, size = table.steps, max(table.state_bytes, 1)
    measured = [row.measured for row in table.rows if row.measured is not None]
    axes = figure_of("Tradeoff.plot", (6.4, 3.8 + 0.16 * len(table.rows)))[1]
    axes.set(xscale="log", yscale="log")
    families = dict.fromkeys(row.schedule.partition("(")[0] for row in table.rows)
    bound = [(slots * size, work_of(table, advances(steps, slots))) for slots in slots_of(steps)]
    axes.fill_between(*zip(*bound, strict=True), 1, color="0.93", zorder=0)
    axes.plot(*zip(*bound, strict=True), color="0.78", lw=4, label="least possible with states in memory (binomial)", zorder=1)
    for family in families:
        if points := curve_of(family, steps):
            curve = [(states * size, work_of(table, again)) for states, again in points]
            drawn = "steps-post" if family == "Periodic" else "default"
            axes.plot(*zip(*curve, strict=True), color=STYLES[family][0], lw=1, alpha=0.7, zorder=2, drawstyle=drawn)
    placed: list[tuple[float, float]] = []
    for number, row in enumerate(table.rows):
        add_point(axes, row, number, placed)
    if table.memory is not None:
        axes.axvline(table.memory, color="black", lw=1, ls="--", zorder=1, label=f"budget: {format_bytes(table.memory)}")
    if measured:
        axes.plot([], [], "o", mfc="white", mec="black", ms=6, label="measured: peak memory, time of both sweeps")
    works = [row.work for row in (*table.rows, *measured)]
    furthest = max(size * steps, *(result.peak_bytes for result in measured), 0)
    axes.set(xlim=(0.8 * size, 1.5 * furthest), ylim=(min(1.6, 0.8 * min(works)), max(10, 1.6 * max(works))))
    ticks(axes, size)
    axes.set(xlabel="memory for saved states", ylabel="work or time, in simulations" if measured else "work, in simulations")
    axes.set_title(f"{steps:,} steps, a state of {format_bytes(table.state_bytes)}", fontsize=9)
    axes.grid(which="major", color="0.9", lw=0.6)
    add_legend(axes, 1)
    return save_figure(axes, path)


def add_point(axes: Any, row: Any, number: int, placed: list[tuple[float, float]]) -> None:
    """Draw the point of a row, and of what was measured, with the letter that it has in the legend."""
    family, letter = row.schedule.partition("(")[0], chr(ord("a") + number % 26)
    (colour, marker), size = STYLES.get(family, ("0.4", "o")), 12 if family == "CTZ" else 7
    disk = f" + {format_bytes(row.disk_bytes)} on disk" if row.disk_bytes else ""
    label = f"{letter}  {row.schedule}: {format_bytes(row.bytes)}{disk}, {row.work:.3g}x"
    axes.plot([row.bytes], [row.work], marker, color=colour, ms=size, mec="white", mew=0.6, label=label, zorder=5)
    crowd = sum(abs(log(x / row.bytes)) < 0.25 and abs(log(y / row.work)) < 0.08 for x, y in placed) if row.bytes else 0
    placed.append((max(row.bytes, 1), row.work))
    apart = ((5, 5), (6, -11), (-12, 5), (-12, -11))[crowd % 4]
    axes.annotate(letter, (row.bytes, row.work), apart, textcoords="offset points", fontsize=9, color=colour, zorder=6)
    if row.measured is not None:
        at = row.measured.peak_bytes, row.measured.work
        axes.plot([row.bytes, at[0]], [row.work, at[1]], color=colour, lw=0.8, ls=":", zorder=3)
        axes.plot(*at, marker, mfc="white", mec=colour, ms=size - 1, zorder=4)
        axes.annotate(letter, at, (5, 5), textcoords="offset points", fontsize=9, color=colour, zorder=6)


def curve_of(family: str, steps: int) -> list[tuple[int, int]]:
    """(states, advances) of a family of schedules over its slots, where it has any."""
    if family == "Periodic":
        lengths = [every for every in slots_of(steps) if every**2 <= steps]
        again = lambda every: 2 * steps - ((steps - 1) % every + 1) - -(-steps // every)  # as the docstring of Periodic says
        return sorted((Periodic(every=every).limit(steps), again(every)) for every in lengths)
    if family == "Revolve":
        return [(slots, advances(steps, slots)) for slots in slots_of(steps)]
    if family == "Online":
        slots = [slots for slots in slots_of(steps) if 2 < slots <= max(steps // 10, 4)]
        apart = -(-len(slots) // min(max(COUNTED_STEPS // steps, 2), 24)) or 1
        return [(count, simulate(Online(count), steps).advances) for count in slots[::apart]]
    return []


def slots_of(steps: int) -> list[int]:
    """Numbers from 1 to N, evenly spaced on a logarithmic axis."""
    return sorted({round(steps ** (i / 300)) for i in range(301)})


def work_of(table: Any, again: int) -> float:
    return float(again + 1) / table.steps + table.pull_cost


def figure_of(where: str, size: tuple[float, float]) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"{where} needs matplotlib; install it with: pip install 'dualad[plot]'") from error
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.tick_params(labelsize=8)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def ticks(axes: Any, size: int) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    tick: Callable[..., str] = lambda value, position: format_bytes(round(value))
    axes.xaxis.set_major_formatter(FuncFormatter(tick))
    axes.yaxis.set_major_locator(LogLocator(10, (1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}x"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    above = axes.secondary_xaxis("top", functions=(lambda value: value / size, lambda value: value * size))
    above.set_xlabel("saved states", fontsize=9)
    above.tick_params(labelsize=8)
    above.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,.0f}"))


def add_legend(axes: Any, columns: int) -> None:
    """Put the legend below the axes, where it hides nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncol=columns, fontsize=8, frameon=False, numpoints=1)


def save_figure(axes: Any, path: str | PathLike[str] | None) -> Any:
    if path is not None:
        axes.figure.savefig(path, dpi=200)
    return axes
