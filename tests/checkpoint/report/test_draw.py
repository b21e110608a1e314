"""Pictures of schedules."""

from xml.etree import ElementTree

import pytest

from checkpoint.report.draw import History, draw
from checkpoint.schedules import CTZ, Mixed, Online, Periodic, Revolve, StoreAll

SIXTEEN = """\
CTZ(refill='bisect'), 16 steps: 32 advances, at most 5 states saved
X saved   + loaded   - advanced over   ^ working state

                                 1 1 1 1 1 1
             0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
first sweep  X---------------X-------X---X-X
reverse 15   X               X       X   X ^
reverse 14   X               X       X   ^
reverse 13   X               X       +-^
reverse 12   X               X       ^
reverse 11   X               +---X-^
reverse 10   X               X   ^
reverse 9    X               +-^
reverse 8    X               ^
reverse 7    +-------X---X-^
reverse 6    X       X   ^
reverse 5    X       +-^
reverse 4    X       ^
reverse 3    +---X-^
reverse 2    X   ^
reverse 1    +-^
reverse 0    ^"""


def test_the_chain_of_sixteen():
    assert draw(CTZ("bisect"), 16) == SIXTEEN


def test_one_row_a_step():
    for schedule in (CTZ(), Revolve(2), StoreAll(), Periodic(), Online(2)):
        for steps in (1, 2, 9, 120):
            lines = draw(schedule, steps).splitlines()
            assert len(lines) == 3 + len(str(steps - 1)) + 1 + steps
            assert [line.rindex("^") for line in lines[-steps:]] == [13 + 2 * k for k in reversed(range(steps))]


@pytest.mark.parametrize("schedule", [CTZ(), Revolve(3), StoreAll(), Periodic(), Online(2), Mixed(3)], ids=repr)
@pytest.mark.parametrize("steps", [1, 2, 30, 120])
def test_notebooks_show_it_in_space_and_time(schedule, steps):
    drawing = draw(schedule, steps)
    picture = ElementTree.fromstring(drawing._repr_svg_())
    lines = [line for line in picture if line.tag.endswith("line")]
    moved = [line for line in lines if line.get("y1") != line.get("y2")]
    history = History(schedule, steps)
    assert len(moved) == sum(map(len, history.lines.values()))
    assert len(lines) - len(moved) == len(history.visible())
    assert drawing.splitlines()[0] in "".join(picture.itertext())


def test_recorded_steps_are_marked():
    assert "R recorded" in draw(Mixed(3), 10) and "recorded" not in draw(Revolve(3), 10)


def test_errors():
    for schedule, steps, error, reason in (
        (CTZ(), 121, ValueError, "steps must be at most 120"),
        (CTZ(), 0, ValueError, "steps must be at least 1"),
        ("ctz", 8, TypeError, "schedule must be a Schedule such as"),
    ):
        with pytest.raises(error, match=f"draw: {reason}"):
            draw(schedule, steps)
