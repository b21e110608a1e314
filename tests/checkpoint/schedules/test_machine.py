"""The machine accepts what is legal and names the first action that is not; all that reads actions agrees on what they mean."""

from collections import deque
from itertools import accumulate, islice

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scripted import Script

from checkpoint import Stats, Sweep, draw
from checkpoint.report.draw import History
from checkpoint.schedules import CTZ, Mixed, Online, Periodic, Revolve, StoreAll, Tiered
from checkpoint.schedules.actions import Advance, Drop, Load, Record, Reverse, Save
from checkpoint.schedules.blocks import evaluations
from checkpoint.schedules.machine import Counts, Cursor, ScheduleError, executed, simulate
from checkpoint.sweep import reverse

FIRST = (Save(0), Advance(0, 1))
SECOND = (Reverse(1), Load(0), Drop(0), Reverse(0))


def test_a_legal_schedule():
    assert simulate(Script(FIRST, SECOND), 2) == Counts(saves=1, loads=1, advances=1, pulls=2, peak_states=1)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ((Save(1),), (), r"Save\(index=1\) is not legal: the working state is x_0"),
        ((Save(0), Save(0)), (), "saved already"),
        ((Advance(1, 2),), (), "working state is x_0"),
        ((Advance(0, 2),), (), "needed next is x_1"),
        ((Advance(0, 0),), (), "needed next"),
        ((Load(1),), (), r"Load\(index=1\).*not saved"),
        ((Drop(1),), (), r"Drop\(index=1\).*not saved"),
        ((*FIRST, Reverse(1)), (), r"Reverse\(index=1\)"),
        ((Save(0),), (), "first sweep of 2 steps ends at x_0"),
        (FIRST, (Reverse(0),), "steps from 2 on are reversed"),
        (FIRST, (Reverse(1), Reverse(0)), "there is no working state"),
        (FIRST, (Load(0), Reverse(1)), "working state is x_0"),
        (FIRST, (Load(0), Reverse(0)), "steps from 2 on are reversed"),
        (FIRST, (Reverse(1), Load(0), Advance(0, 1)), "needed next is x_0"),
        (FIRST, (Reverse(1), Reverse(1)), "steps from 1 on"),
        (FIRST, SECOND[:2], "steps below 1 are not reversed"),
        (FIRST, SECOND[:1], "steps below 1 are not reversed"),
        (FIRST, (Reverse(1), Load(0), Reverse(0)), r"\[0\] are left saved"),
        (("stop",), (), "not an action"),
        ((Record(1),), (), r"Record\(index=1\).*working state is x_0"),
        ((Record(0), Record(1)), (), r"Record\(index=1\).*needed next is x_1"),
        ((Record(0), Save(1)), (Reverse(1), Reverse(0)), r"\[1\] are left saved"),
    ],
)
def test_illegal(first, second, reason):
    with pytest.raises(ScheduleError, match=reason):
        simulate(Script(first, second), 2)
    if "left saved" not in reason:  # which a sweep drops
        with pytest.raises((RuntimeError, TypeError, ValueError, KeyError), match=r"sweep: the schedule|Memory: .*state [01]"):
            reverse(lambda k, x: x, lambda k, x, g: g, 1.0, 1.0, steps=2, schedule=Script(first, second))


def test_the_limit_is_held():
    first = (Save(0), Advance(0, 1), Save(1), Advance(1, 2))
    with pytest.raises(ScheduleError, match=r"Save\(index=1\).*limit of 1 saved"):
        simulate(Script(first, most=1), 3)


def test_unknown_length_goes_step_by_step():
    with pytest.raises(ScheduleError, match="one step at a time"):
        simulate(Script((Save(0), Advance(0, 2))), 3, known=False)


@pytest.mark.parametrize("first", [(Save(1),), (Load(0),), (Save(0), Advance(0, 1), Save(0))])
def test_a_sweep_of_unknown_length_refuses_what_is_illegal(first):
    with pytest.raises(RuntimeError, match="sweep: the schedule asks for"):
        reverse(lambda k, x: x, lambda k, x, g: g, 1.0, 1.0, until=lambda k, x: k == 3, schedule=Script(first))


def test_unknown_length_may_save_the_state_before_the_newest():
    first = (Save(0), Advance(0, 1), Advance(1, 2), Save(1), Advance(2, 3))
    second = (Reverse(2), Load(1), Drop(1), Reverse(1), Load(0), Drop(0), Reverse(0))
    assert simulate(Script(first, second), 3, known=False).saves == 2
    with pytest.raises(ScheduleError, match=r"Save\(index=0\).*working state is x_2"):
        simulate(Script((Advance(0, 1), Advance(1, 2), Save(0), Advance(2, 3))), 3, known=False)
    with pytest.raises(ScheduleError, match=r"Save\(index=1\).*working state is x_2"):
        simulate(Script(first, (Save(1),)), 3, known=True)


@pytest.mark.parametrize(("steps", "error"), [(-1, ValueError), (1.5, TypeError)])
def test_bad_steps(steps, error):
    with pytest.raises(error, match="simulate: steps"):
        simulate(Script(()), steps)


@pytest.mark.parametrize(
    ("first", "second", "steps"),
    [
        ((Save(0), Advance(0, 2)), (Reverse(2), Load(0), Advance(0, 1), Advance(0, 1), Reverse(1)), 3),
        ((Save(0), Advance(0, 2)), (Reverse(2), Load(0), Advance(0, 1), Advance(1, 0), Reverse(1)), 3),
        ((Save(0), Advance(0, 3), Load(0), Advance(0, 2)), (), 3),
    ],
    ids=["it starts elsewhere", "backwards", "beyond the state that is needed"],
)
def test_an_advance_that_is_illegal_is_refused_before_a_step_is_made(first, second, steps):
    made = []
    with pytest.raises(RuntimeError, match=r"sweep: the schedule asks for Advance"):
        reverse(lambda k, x: made.append(k) or x + 1, lambda k, x, g: g, 0, 0, steps=steps, schedule=Script(first, second))
    assert made == ([0, 1, 2, 0] if second else [])


slots = st.integers(1, 9)
COSTS = [1.0, 7.0, 2.0, 3.0]


def of_known_length(steps):
    """All kinds of schedules, with any arguments."""
    return st.one_of(
        st.sampled_from([CTZ(), CTZ("bisect"), StoreAll(), Periodic(), Revolve(2, (COSTS * steps)[:steps])]),
        *(st.builds(kind, slots) for kind in (Revolve, Online, Mixed)),
        *(st.builds(Periodic, **{argument: slots}) for argument in ("every", "segments")),
        st.builds(Tiered, slots, st.integers(0, 4)),
    )


CHAINS = st.integers(1, 70).flatmap(lambda steps: st.tuples(of_known_length(steps), st.just(steps)))


@example((Mixed(1), 2))  # records and no saved state
@given(CHAINS)
def test_all_that_execute_or_show_a_schedule_agree(chain):
    schedule, steps = chain
    counts = simulate(schedule, steps)
    sweep = Sweep(lambda k, x: x + 1, 0, steps=steps, schedule=schedule, record=lambda k, x: (x + 1, lambda g: [*g, k]))
    with sweep:
        assert sweep.forward() == steps
        pulled = sweep.backward(lambda k, x, g: [*g, k] if x == k else None, [])
    assert pulled == [*range(steps)][::-1], "each step is pulled from its own state"
    stats = sweep.stats
    assert stats.advances == counts.advances + (steps > 0) and stats.pulls == counts.pulls == steps
    assert stats.seconds > 0 and stats.schedule == repr(schedule)
    last = Save(steps - 1) in schedule.forward(steps)  # the sweep loads x_{N-1} then: it was not kept as the working state
    assert (stats.saves, stats.loads, stats.peak_states) == (counts.saves, counts.loads + last, counts.peak_states)

    history = History(schedule, steps)
    assert [line[1][1] for line in history.lines["reversed"]] == pulled
    assert len(history.saves) == len(history.intervals) == counts.saves + counts.records
    assert history.now == counts.advances + steps
    moments = sorted((time, change) for _, *ends in history.intervals for time, change in zip(ends, (1, -1), strict=True))
    assert max(accumulate((change for _, change in moments), initial=0)) <= counts.peak_states
    assert evaluations(schedule, steps, 1, False) == counts.advances + counts.records + 1

    title, *_, last = draw(schedule, steps).splitlines()
    assert f" {counts.advances} advances, at most {counts.peak_states} states saved" in title and last == "reverse 0    ^"


@pytest.mark.parametrize("schedule", [CTZ(), StoreAll(), Periodic(3), Online(1), Online(4)], ids=repr)
@given(steps=st.integers(0, 60))
def test_a_length_that_shows_only_at_the_end_is_executed_as_the_law_says(schedule, steps):
    counts, stats = simulate(schedule, steps, known=False), Stats()
    result = reverse(lambda k, x: x + 1, lambda k, x, g: g + (x == k), 0, 0, until=lambda k, x: k == steps, schedule=schedule, stats=stats)
    assert (result.final, result.cotangent) == (steps, steps)
    assert (stats.advances, stats.saves) == (counts.advances + (steps > 0), counts.saves)


@given(CHAINS, st.data())
def test_a_sweep_that_is_cut_anywhere_goes_on_from_where_the_cursor_stands(chain, data):
    schedule, steps = chain
    whole = list(schedule.forward(steps))
    cut = data.draw(st.integers(0, len(whole)))
    cursor, actions = Cursor(steps), schedule.forward(steps)
    cursor.run(islice(actions, cut))
    assert list(actions) == whole[cut:]
    cursor.run(whole[cut:])
    assert cursor.working == steps - 1
    cursor.end_forward(steps)
    reverse = list(schedule.reverse(steps, sorted(cursor.saved)))
    cut = data.draw(st.integers(0, len(reverse)))
    cursor.run(reverse[:cut])
    assert cursor.next == steps - sum(type(action) is Reverse for action in reverse[:cut])
    cursor.run(reverse[cut:])
    cursor.check_end()


class Counted(Script):
    """A script that counts the actions that it was asked for, and the ends."""

    records = True

    def forward(self, steps):
        return self.told(self.first)

    def reverse(self, steps, saved):
        return self.told(self.second)

    def told(self, actions):
        asked.append(0)
        for action in (*actions, None):
            asked[-1] += 1
            if action is not None:
                yield action


asked = []


@st.composite
def changed(draw):
    """A schedule of which one action is left out, put in, or another one; the length, and whether it is known before."""
    schedule, steps = draw(CHAINS.filter(lambda chain: chain[1] < 16))
    known = draw(st.booleans()) or not isinstance(schedule, CTZ | StoreAll | Online)
    cursor, sweeps = Cursor(steps), [[], []]
    whole = executed(schedule, cursor, known=known)
    for sweep in sweeps:
        for action in whole:
            if action is None:
                break
            sweep.append(action)
    if not known:
        sweeps[0] += [Advance(steps - 1, steps), Advance(steps, steps + 1)]
    sweep = sweeps[draw(st.integers(0, 1))]
    at, kind = draw(st.integers(0, len(sweep))), draw(st.sampled_from([Save, Load, Drop, Advance, Record, Reverse, None]))
    numbers = [draw(st.integers(0, steps)) for _ in range(1 + (kind is Advance))]
    sweep[at : at + draw(st.integers(0, 1))] = [] if kind is None else [kind(*numbers)]
    return *map(tuple, sweeps), steps, known


@settings(max_examples=400)
@example(((Save(0), Advance(0, 2)), (Reverse(2), Load(0), Advance(0, 2), Advance(2, 1), Reverse(1)), 3, True))
@given(changed())
def test_a_sweep_refuses_the_action_that_the_law_refuses(case):
    first, second, steps, known = case
    outcomes = []
    for run in (run_law, run_sweep):
        asked.clear()
        outcomes.append((run(Counted(first, second), steps, known), asked.copy()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("first", "steps", "known"),
    [((Save(0), Record(0), Load(0), Record(0), Record(1)), 3, True), ((Save(0), Advance(0, 1)), 3, False)],
    ids=["recorded twice", "an endless sweep that ends"],
)
def test_rare_faults(first, steps, known):
    for run in (run_law, run_sweep):
        asked.clear()
        assert not run(Counted(first), steps, known) and asked == [4 if known else 3], "in the first sweep"


def run_law(schedule, steps, known):
    cursor = Cursor(steps)
    try:
        deque(executed(schedule, cursor, known=known), maxlen=0)
    except ScheduleError as error:
        return "left saved" in str(error)  # a sweep drops it
    return True


def run_sweep(schedule, steps, known):
    until = {"steps": steps} if known else {"until": lambda k, x: k == steps}
    sweep = Sweep(lambda k, x: x + 1, 0, schedule=schedule, record=lambda k, x: (x + 1, lambda g: [*g, k]), **until)
    try:
        sweep.forward()
        pulled = sweep.backward(lambda k, x, g: [*g, k] if x == k else None, [])
    except (RuntimeError, ValueError, KeyError) as error:
        assert "saved" in str(error) or "the schedule asks for" in str(error)
        return False
    assert pulled == [*range(steps)][::-1], "each step is pulled from its own state"
    return True
