"""A schedule as a picture in text: states across, time downwards."""

from ..schedules import Schedule
from ..schedules.actions import Advance, Load, Record, Reverse
from ..schedules.machine import Cursor, executed
from ..schedules.schedule import check_schedule
from ..support.checks import whole_number
from .plot import LINES, PLOTTED_STEPS, History

__all__ = ["Drawing", "draw"]

LEGEND = "X saved   + loaded   - advanced over   ^ working state"
RECORDED = "   R recorded"
DRAWN_STEPS = 120  # that a terminal shows
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
    schedule : Schedule
        What to draw.
    steps : int
        Length N of the chain, from 1 to 120.

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
                rows.append(_row(label, here, cursor, path, loaded))
                path, loaded = set(), None
    title = f"{schedule}, {steps} steps: {cursor.advances} advances, at most {cursor.peak} states saved"
    legend = LEGEND + RECORDED if schedule.records else LEGEND
    drawing = Drawing("\n".join([title, legend, "", *_scale(steps), *rows]))
    drawing.schedule, drawing.steps = schedule, steps
    return drawing


def _label(text: str) -> str:
    return f"{text:<13}"


def _scale(steps: int) -> list[str]:
    """Indices of the states, digits below one another."""
    width = len(str(steps - 1))
    digits = [f"{k:>{width}}" for k in range(steps)]
    return [_label("") + " ".join(digit[row] for digit in digits) for row in range(width)]


def _row(label: str, here: int, cursor: Cursor, path: set[int], loaded: int | None) -> str:
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
    return (_label(label) + "".join(cells)).rstrip()
