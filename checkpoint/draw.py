"""A schedule as a picture in text: states across, time downwards."""

from .actions import Action, Advance, Drop, Load, Record, Reverse, Save
from .checks import whole_number
from .machine import simulate
from .schedules import Schedule

__all__ = ["draw"]

WIDEST = 120
LEGEND = "X saved   + loaded   - advanced over   ^ working state"
RECORDED = "   R recorded"


def draw(schedule: Schedule, steps: int) -> str:
    """Draw what a schedule does with a short chain: one row for the first sweep, then one for every step reversed.

    Parameters
    ----------
    schedule : Schedule
        What to draw.
    steps : int
        Length N of the chain, from 1 to 120.

    Returns
    -------
    str

    Raises
    ------
    ValueError, TypeError
        If `steps` is not such a number.

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
    hint = "give the length of the chain"
    steps = whole_number(steps, where="draw", argument="steps", least=1, hint=hint)
    if steps > WIDEST:
        raise ValueError(
            f"draw: steps must be at most {WIDEST} to be readable, got {steps}; a plot shows up to 2000, compare gives the counts of any"
        )
    counts = simulate(schedule, steps)  # first, so that an illegal schedule is an error and not a wrong picture
    picture = _Picture(steps)
    for action in schedule.forward(steps):
        picture.add(action)
    picture.end_row("first sweep", steps - 1)
    for action in schedule.reverse(steps, sorted(picture.saved)):
        picture.add(action)
    title = f"{schedule}, {steps} steps: {counts.advances} advances, at most {counts.peak_states} states saved"
    legend = LEGEND + RECORDED if schedule.records else LEGEND
    return "\n".join([title, legend, "", *_scale(steps), *picture.rows])


def _label(text: str) -> str:
    return f"{text:<13}"


def _scale(steps: int) -> list[str]:
    """Indices of the states, digits below one another."""
    width = len(str(steps - 1))
    digits = [f"{k:>{width}}" for k in range(steps)]
    return [_label("") + " ".join(digit[row] for digit in digits) for row in range(width)]


class _Picture:
    """Collects actions into rows."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.saved: set[int] = set()
        self.recorded: set[int] = set()
        self.rows: list[str] = []
        self.loaded: int | None = None
        self.path: set[int] = set()  # columns advanced over; state k stands in column 2k

    def add(self, action: Action) -> None:
        match action:
            case Save():
                self.saved.add(action.index)
            case Drop():
                self.saved.remove(action.index)
            case Load():
                self.loaded = action.index
            case Advance():
                self.path.update(range(2 * action.start, 2 * action.stop))
            case Record():
                self.recorded.add(action.index)
                self.path.add(2 * action.index + 1)
            case Reverse():
                self.recorded.discard(action.index)
                self.end_row(f"reverse {action.index}", action.index)

    def end_row(self, label: str, here: int) -> None:
        cells = [" "] * (2 * self.steps)
        for column in self.path:
            cells[column] = "-"
        cells[2 * here] = "^"
        for k in self.saved:
            cells[2 * k] = "X"
        for k in self.recorded:
            cells[2 * k] = "R"
        if self.loaded is not None and self.path:
            cells[2 * self.loaded] = "+"
        self.rows.append((_label(label) + "".join(cells)).rstrip())
        self.path.clear()
        self.loaded = None
