"""Turns: where the paths of a function differ in how often a loop went round, it is one loop, of as many turns as it takes.

A loop in Python goes round where one of its tests, its head, is met again (see `visits`). It carries the traced variables that are read
later, and whether it goes on. A turn is a path from one head to the next, a tail one from the last head to the end of the function: both
are merged as those of whole functions are. Where a variable that is not traced changes from turn to turn, what follows is known after those
numbers of turns alone after which it was seen, which is a test; numbers that change are read from tables.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from ..support.costs import LOOP_TURNS
from .nested import Branch, Scan, as_kind
from .operands import shape_of, with_operands
from .passes import optimised
from .program import Kind, Operation, Program, Value, key_of, kind_of
from .reroll import rolled
from .trace import Answer


class Unlike(Exception):
    """The turns of a loop are not alike."""


class Segment:
    """What a path does from its test number `head` on, the head after `turn` turns: to the next head, or if `after` is None to the end.

    `group` is the number of the tails that are alike, None of a turn.
    """

    def __init__(self, path, depth, head, after, turn, known):
        self.path, self.turn, self.group = path, turn, None
        self.head: Any = path.tests[head]
        self.after: Any = None if after is None else path.tests[after]
        self.tests = path.tests[head + 1 : after]
        first, mine = path.tests[depth].number, {test.number for test in (self.head, *self.tests)}
        if any(again >= first and again not in mine for test in (self.head, *self.tests) for again in test.again):
            raise Unlike  # what it does depends on an answer in another turn
        start = self.head.position
        self.operations = path.program.operations[start : None if after is None else path.tests[after].position]
        shaped = list(map(shape_of, self.operations))
        self.shapes = [known.setdefault(shape, len(known)) for shape, _ in shaped]
        self.operands = [operands for _, operands in shaped]
        self.made = {out: k for k, out in enumerate(out for operation in self.operations for out in operation.outputs)}
        self.positions = [test.position - start for test in self.tests]
        self.truths = tuple(test.truth for test in self.tests)

    def ports(self):
        """Yield what it reads, each with a key, the same in segments that are alike: what is read after the same answers, however often
        they were given."""
        answers = [(k if test.visit is None else test.visit.place, test.truth) for k, test in enumerate(self.tests)]
        prefixes = [(self.group, frozenset(answers[:k]), *answers[k - 1 : k]) for k in range(len(answers) + 1)]
        self.kind, tests, first = prefixes[-1], 0, 0
        for i, (shape, operands) in enumerate(zip(self.shapes, self.operands, strict=True)):
            while tests < len(answers) and self.positions[tests] <= i:
                tests, first = tests + 1, i
            for j, operand in enumerate(operands):
                yield (prefixes[tests], i - first, shape, j), operand
        for prefix, test in zip(prefixes, self.tests, strict=False):
            yield (prefix, "test"), test.value
        for k, out in enumerate(self.path.program.outputs if self.after is None else [self.after.value]):
            yield (self.kind, "out", k), out

    def held(self):
        """Yield what variables hold at the tests in it, with keys."""
        for (prefix, _), test in zip((key for key, _ in self.ports() if key[1] == "test"), self.tests, strict=True):
            yield {} if test.visit is None else {(prefix, "held", name): value for name, value in test.visit.traced.items()}


class Turns:
    """The loop that some paths make from their test number `depth` on, with heads at the tests `runs`, which answer `goes_on`.

    Of what is carried, `turns` are paths of turns, and `tails` for each path what follows.
    """

    def __init__(self, paths, depth, runs, goes_on, around):
        self.around, self.goes_on, self.lead, self.head = around, goes_on, paths[0].program, paths[0].tests[depth]
        self.count, self.most = max(path.program.count for path in paths), max(map(len, runs)) - 1
        pairs = [(path, pairwise([*run, None])) for path, run in zip(paths, runs, strict=True)]
        known: dict = {}  # numbers of shapes
        segments = [Segment(path, depth, *pair, turn, known) for path, found in pairs for turn, pair in enumerate(found)]
        self.heads = [segment.head for segment in segments]
        self.round, self.ends = ([one for one in segments if (one.after is None) is ends] for ends in (False, True))
        # whether some path left the loop within a turn
        self.breaks = any(one.head.truth is goes_on for one in self.ends)
        before = (out for operation in self.lead.operations[: self.head.position] for out in operation.outputs)
        self.before = {value.number: value for value in (*self.lead.inputs, *before)}
        self.kinds = self.traced()
        self.steady = self.others_are_steady()
        self.live = self.new(kind_of(self.head.value if goes_on else np.True_))
        self.slots: dict[Any, Value] = {}
        self.numbers: dict[Any, tuple[Value, dict[int, Any]]] = {}
        self.limited: set = set()  # kinds of segments that are known after those numbers of turns alone after which they were seen
        self.sources: dict[Any, tuple] = {}
        self.flags: dict[Any, list[Answer]] = {}  # the tests for that
        groups = self.grouped()
        self.compare(segments)
        self.limit(groups)
        self.turns = list(map(self.path, {segment.truths: segment for segment in self.round}.values()))
        self.tails = [self.path(segment) for segment in self.ends]

    @classmethod
    def found(cls, paths, depth):
        """Return the loop whose head is a test of some paths, None where there is none, or its turns are not alike."""
        visits = [path.tests[depth].visit for path in paths]
        if None in visits or any(visit.place != visits[0].place for visit in visits):
            return None
        both = [(truth, [heads(path.tests, depth, truth) for path in paths]) for truth in (True, False)]
        goes_on, runs = max(both, key=lambda one: max(map(len, one[1])))
        longest, run = max(zip(paths, runs, strict=True), key=lambda pair: len(pair[1]))
        if len(run) - 1 <= LOOP_TURNS:
            return None
        if any(len(heads(longest.tests, k, longest.tests[k].truth)) > len(run) for k in range(run[0] + 1, run[1])):
            return None  # another test, which is made in all turns, tells better whether the loop goes on
        around = step(longest.tests[run[0]].visit, longest.tests[run[1]].visit)
        runs = [heads(path.tests, depth, goes_on, around) for path in paths]
        try:
            return cls(paths, depth, runs, goes_on, around)
        except Unlike:
            return None

    def new(self, kind):
        """Return a new value, of all paths."""
        self.count += 1
        return Value(self.count - 1, *kind)

    # --- what the turns have in common --------------------------------------------------------------------------------------------

    def traced(self) -> dict[Any, Kind]:
        """Return the kinds of the variables that are traced at all heads and change."""
        if self.goes_on and len({kind_of(head.value) for head in self.heads}) > 1:
            raise Unlike
        held = [head.visit.traced for head in self.heads]
        return {
            name: kind_of(value)
            for name, value in self.head.visit.traced.items()
            if all(name in one and kind_of(one[name]) == kind_of(value) for one in held) and len({one[name].number for one in held}) > 1
        }

    def others_are_steady(self) -> bool:
        """Return whether all variables that are not traced are the same at all heads. Where turns go several ways they may only count."""
        pairs = [(one.head.visit.plain, one.after.visit.plain) for one in self.round]
        changing = {name for one, other in pairs for name in {*one, *other} if one.get(name, Unlike) != other.get(name, Unlike)}
        if len({segment.truths for segment in self.round}) > 1:
            for name in changing:
                counts = [(one.get(name), other.get(name)) for one, other in pairs]
                if any(type(x) is not int for pair in counts for x in pair) or len({after - before for before, after in counts}) > 1:
                    raise Unlike
        return not changing

    def grouped(self):
        """Return the groups of tails after numbers of turns that are alike: whether the loop would go on, and these numbers."""
        shapes = dict[Any, Any]()
        for segment in self.round:
            if shapes.setdefault(segment.truths, (segment.shapes, segment.positions)) != (segment.shapes, segment.positions):
                raise Unlike
        for one in self.ends:
            last = one.turn == self.most and self.head.visit.counted
            if one.head.truth is self.goes_on and not last and any(truths == one.truths[: len(truths)] for truths in shapes):
                raise Unlike  # an iterator that is not seen ended the loop
        groups: list[tuple[bool, dict, set]] = []
        for turn in sorted({segment.turn for segment in self.ends}):
            for goes_on in (True, False):
                mine = [one for one in self.ends if one.turn == turn and (one.head.truth is self.goes_on) is goes_on]
                shapes = {one.truths: (one.shapes, one.positions) for one in mine}
                for group in groups:
                    if group[0] is goes_on and all(group[1].get(truths, shape) == shape for truths, shape in shapes.items()):
                        break
                else:
                    groups.append(group := (goes_on, {}, set()))
                if mine:
                    group[1].update(shapes)
                    group[2].add(turn)
                for one in mine:
                    one.group = groups.index(group)
        return [(goes_on, turns) for goes_on, _, turns in groups]

    def compare(self, segments):
        """Find out where what is read comes from: the same place in all segments that are alike."""
        self.find((key, segment, x) for segment in segments for key, x in segment.ports())
        while missing := {source[1] for source in self.sources.values() if source[0] == "slot"} - self.slots.keys():
            for name in sorted(missing, key=str):
                self.slots[name] = self.new(self.kinds[name])
                self.find(((one.kind, "next", name), one, one.after.visit.traced[name]) for one in self.round)
        limited = set(self.limited)
        self.find(((key, one, x) for one in segments for held in one.held() for key, x in held.items()), optional=True)
        self.limited = limited

    def find(self, ports, optional=False):
        """Find out where ports are read from; `optional` ones may have none, or several places."""
        uses: dict[Any, list] = {}
        for key, segment, x in ports:
            uses.setdefault(key, []).append((segment, x))
        for key, used in uses.items():
            self.limited, known = set(), self.limited
            with suppress(*[Unlike] * optional):
                source = self.source(key, used)
                if not optional or not (self.limited or (source[0] == "slot" and source[1] not in self.slots)):
                    self.sources[key] = source
            self.limited |= known

    def source(self, key, uses) -> tuple:
        """Return where an operand comes from, which was these in some segments."""
        places: dict = {}
        for segment, x in uses:
            places.setdefault(segment, []).append(segment.made.get(x) if type(x) is Value else None)
        alike = {segment.truths: made for segment, made in places.items() if segment.after is not None}
        if any(segment.after is not None and alike[segment.truths] != made for segment, made in places.items()):
            raise Unlike  # one turn stands for all that answer alike
        uses = [(segment, x) for segment, x in uses if x not in segment.made] if any(type(x) is Value for _, x in uses) else uses
        if not uses:
            return ("here",)
        if all(type(x) is not Value for _, x in uses):
            return self.literal(key, uses)
        constants = [segment.path.program.constants.get(x) for segment, x in uses]
        same = {(key_of(array), x.kind) for array, (_, x) in zip(constants, uses, strict=True) if array is not None}
        if len(same) == 1 and all(array is not None for array in constants):
            return "constant", constants[0], uses[0][1]
        candidates = set.intersection(*(self.candidates(*use) for use in uses))
        slots = sorted((source for source in candidates if source[0] == "slot"), key=str)
        if not candidates:
            raise Unlike
        if slots and len(slots) < len(candidates):  # before the first turn the two are the same
            self.limited.update(segment.kind for segment, _ in uses)
        named = set.intersection(*({name for name, held in one.head.visit.traced.items() if held is x} for one, x in uses))
        if any(one.turn for one, _ in uses) and any(len({*map(head.visit.traced.get, named)} - {None}) > 1 for head in self.heads):
            raise Unlike  # which of these variables is read is not known: at other heads they are other values
        return slots[0] if slots else candidates.pop()

    def candidates(self, segment, x):
        """Return where a value may come from that a segment does not make."""
        found = {("slot", name) for name in self.kinds if segment.head.visit.traced[name] is x}
        return found | {("before", x.number)} if type(x) is Value and x.number in self.before else found

    def literal(self, key, uses):
        """Return a literal, which may be another number after each number of turns."""
        if len({key_of(x) for _, x in uses}) == 1:
            return "same", uses[0][1]
        table = {segment.turn: x for segment, x in uses}
        alike = all(key_of(table[segment.turn]) == key_of(x) for segment, x in uses)
        if not alike or len(set(map(type, table.values()))) > 1 or np.array([*table.values()]).dtype.kind not in "if":
            raise Unlike
        self.limited.update(segment.kind for segment, _ in uses)
        self.numbers[key] = self.new(kind_of(uses[0][1])), table
        return "number", key

    def limit(self, groups):
        """Make it a test after which numbers of turns what follows is known, where it is not after all."""
        for kind in {segment.kind for segment in self.round} & self.limited:
            seen = {segment.turn for segment in self.round if segment.kind == kind}
            self.flags[kind] = [] if len(seen) == self.most else [self.flag(kind, seen)]
        counted = bool(self.head.visit.counted)
        for goes_on in (True, False):
            mine = [(k, turns) for k, (on, turns) in enumerate(groups) if on is goes_on]
            steady = self.steady and self.limited.isdisjoint(one.kind for one in self.ends if (one.head.truth is self.goes_on) is goes_on)
            before: list[Answer] = []
            if counted and (goes_on or not all(self.around <= one.head.visit.leaves(not self.goes_on) for one in self.ends)):
                steady = False  # where the loop around is tells what follows
            for k, turns in mine:
                always = len(mine) == 1 and steady
                flag = None if always or (len(mine) == 1 and len(turns) > self.most) else self.flag(k, turns)
                for kind in {one.kind for one in self.ends if one.group == k} if not always else ():
                    seen = {one.turn for one in self.ends if one.kind == kind}
                    if seen != turns:
                        self.flags[kind] = [self.flag(kind, seen)]
                self.flags[k] = [Answer(0, self.live, goes_on, self.head.line), *before, *([flag] if flag else [])]
                before += [flag._replace(truth=False)] if flag else []
        self.bound = self.most if counted or self.numbers or not self.steady else 1 << (self.most - 1).bit_length()

    def flag(self, key, turns):
        """Return the test whether the number of turns is one of these."""
        self.numbers[key] = self.new(kind_of(True)), dict.fromkeys(range(self.most + 1), False) | dict.fromkeys(turns, True)
        return Answer(0, self.numbers[key][0], True, self.head.line)

    # --- the paths of turns and tails ---------------------------------------------------------------------------------------------

    def path(self, segment):
        """Return a segment as a path."""
        program, made = Program(), dict[Value, Value]()
        program.count = self.count
        program.inputs = [self.live, *self.slots.values(), *(value for value, _ in self.numbers.values()), *self.before.values()]

        def given(key, x):
            if type(x) is Value and x in segment.made:
                return made[x]
            kind, *what = self.sources[key]
            if kind == "constant":
                value = program.value(what[1])
                program.constants[value] = what[0]
                return value
            if kind == "number":
                return self.numbers[what[0]][0]
            return what[0] if kind == "same" else (self.slots if kind == "slot" else self.before)[what[0]]

        ports = segment.ports()
        for operation, shaped in zip(segment.operations, segment.operands, strict=True):
            operands = [given(*next(ports)) for _ in shaped]
            outputs = tuple(map(program.value, operation.outputs))
            program.operations.append(with_operands(operation, operands, outputs))
            made.update(zip(operation.outputs, outputs, strict=True))
        tests = list(self.flags[segment.group]) if segment.after is None else []
        for test, position, held in zip(segment.tests, segment.positions, segment.held(), strict=True):
            traced = {key[2]: given(key, x) for key, x in held.items() if key in self.sources}
            visit = None if test.visit is None else test.visit._replace(traced=traced)
            tests.append(test._replace(position=position, value=given(*next(ports)), visit=visit))
        program.outputs = [given(*port) for port in ports]
        if segment.after is not None:
            if not self.goes_on:
                program.outputs = [program.append(np.logical_not, (program.outputs[0],), {}, np.True_, segment.after.line)]
            program.outputs[:0] = [given((segment.kind, "next", name), segment.after.visit.traced[name]) for name in self.slots]
        tests += [flag._replace(position=len(program.operations)) for flag in self.flags.get(segment.kind, ())]
        return segment.path._replace(program=program, tests=tests)

    # --- the loop -----------------------------------------------------------------------------------------------------------------

    def enter(self, program: Program, turn: Program, left: bool):
        """Enter the loop of the program of a turn, which says last, if it may have `left`, whether it took a path not yet seen: then the
        loop ends before it."""
        body, carried, numbers = Program(), [*self.slots.values(), self.live], [value for value, _ in self.numbers.values()]
        body.count, body.constants, body.operations = turn.count, turn.constants, list(turn.operations)
        rows, live = list(map(body.value, numbers)), len(carried) - 1
        params = [value for value in turn.inputs if value not in carried and value not in numbers]
        first = [self.head.visit.traced[name] for name in self.slots] + [self.head.value]
        if not self.goes_on:
            first[-1] = program.append(np.logical_not, (first[-1],), {}, self.live, self.head.line)
        outs = [*turn.outputs, *rows]
        if left:
            over, before, after = outs.pop(live + 1), [*carried, *numbers], outs
            runs, live = body.value(self.live), live + 1
            arms = []
            for stays in (True, False):
                arm = Program()
                one, other = (list(map(arm.input, before)) for _ in range(2))
                arm.outputs = [*one, as_kind(arm, False, kind_of(self.live))] if stays else [*other, other[live - 1]]
                arm.outputs.insert(live, arm.outputs.pop())
                arms.append(arm)
            carried, first = [*carried, runs], [*first, first[-1]]
            outs = body.append(Branch(*arms), (over, *before, *after), {}, [*carried, *numbers], self.head.line)
        body.inputs = [body.value(0), *carried, *numbers, *rows, *params]
        body.outputs = list(outs)
        tables = [[table.get(turn, next(iter(table.values()))) for turn in range(self.bound + 1)] for _, table in self.numbers.values()]
        args = [*first, *(table[0] for table in tables), *(program.constant(np.array(table[1:])) for table in tables), *params]
        loop = Scan(optimised(rolled(body)), self.bound, len(carried) + len(rows), len(rows), live=live)
        seen = *self.slots.values(), self.live, *(program.value(runs) for runs in carried[live:] if left), *numbers
        program.operations.append(Operation(loop, tuple(args), {}, seen, True, self.head.line))


def heads(tests, depth, goes_on, around=None):
    """Return the tests that ask whether a loop goes on that begins with one of them; the ``for`` loops `around` make a step each time, by
    default those that make one the first time."""
    first, run = tests[depth].visit, [depth]
    for k in range(depth + 1, len(tests) if first is not None else 0):
        before, visit = tests[run[-1]].visit, tests[k].visit
        if tests[run[-1]].truth is not goes_on:
            break
        if visit is not None and visit[:2] == first[:2]:
            around = step(before, visit) if around is None else around
            if around != step(before, visit):
                break
            run.append(k)
    return run


def loops_in_verbs(tests) -> bool:
    """Return whether a verb differentiates a function whose loops go round often."""
    places = Counter(test.visit[:2] for test in tests if test.visit is not None and test.visit.differentiated)
    return max(places.values(), default=0) > LOOP_TURNS + 1


def step(one, other):
    """Return the ``for`` loops that go round between two visits."""
    return {loop for loop in (*one.counted, *other.counted) if one.counted.get(loop, Unlike) != other.counted.get(loop, Unlike)}
