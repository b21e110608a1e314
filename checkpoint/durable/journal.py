"""The journal of a sweep, by which another process resumes it.

The manifest identifies the call by what can be named (the step's code, `until`, parameters, the token, x_0, the schedule); results
identify the rest: a durable point has a digest of x_1, of the first cotangent that was pulled, and of the state from which the last
pull started. The resuming process repeats the steps to these states and this pull, writes nothing before they have given the same
bits, and is refused otherwise.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain, islice
from time import monotonic
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import optree

from dualad.support.costs import COMPARISON_SHARE, ONE_BY_ONE

from ..schedules import Schedule
from ..schedules.actions import Action, Advance
from ..schedules.machine import Cursor, Remaining
from ..storage import DamagedState
from ..storage.codec import NAMESPACE
from ..storage.digests import digest, text_or_digest
from ..storage.states import canonical, copy_state, nbytes
from ..support.costs import GATHERED_BYTES
from ..sweep.player import Pull, RowRestorers
from .identity import function_digest
from .session import ANEW, AnotherCall, DurableStates, Mark, remove_files, warn


class LeafCodec:
    """Encodes the leaves of cotangents and rows for a file, and decodes them; registered types are taken apart.
    `trees` contain every kind of leaf, in the same order in every process."""

    def __init__(self, *trees: Any) -> None:
        self.structures = [structure_of(0.0)]
        leaves: list[Any] = optree.tree_leaves(trees, none_is_leaf=True)  # type: ignore[arg-type]
        for leaf in leaves:
            if (structure := structure_of(leaf)) not in self.structures:
                self.structures.append(structure)

    def encode(self, leaves: list[Any]) -> list[Any]:
        """Return the number of the structure of each leaf, and the parts of all leaves."""
        parts, numbers = [], []
        for leaf in leaves:
            of_leaf, structure = optree.tree_flatten(leaf, none_is_leaf=True, namespace=NAMESPACE)
            if structure not in self.structures:
                raise TypeError(
                    f"resume: cannot store a leaf of type {type(leaf).__name__}, a type that no leaf of the state, the token or the "
                    "cotangent of x_N has. Put what it depends on into the state, or drop resume=True"
                )
            numbers.append(self.structures.index(structure))
            parts += of_leaf
        return [np.array(numbers, np.uint8), *parts]

    def decode(self, parts: list[Any]) -> list[Any]:
        numbers, rest = parts[0].tolist(), iter(parts[1:])
        structures = [self.structures[number] for number in numbers]
        return [structure.unflatten(list(islice(rest, structure.num_leaves))) for structure in structures]


@dataclass
class Point:
    """How far a sweep has come. Digests are empty until they are known."""

    sweep: str  # "first" or "reverse"
    point: int = 0  # actions of the sweep's schedule that had begun
    position: int | None = None  # index of the working state
    left: int = 0  # steps not yet reversed; 0 in the first sweep
    first_actions: int = 0  # actions of the first sweep, once it was complete
    steps: int | None = None  # N, if known
    first: str = ""  # digest of x_1
    seed: str = ""  # digest of the cotangent of x_N and of what else the pulls depend on
    pulled: str = ""  # digest of the cotangent of x_{N-1}
    state: str = ""  # digest of x_left, from which the last pull started

    def done(self, sweep: str) -> range:
        """Return the steps of a sweep that were done then."""
        if sweep == "reverse":
            return range(self.left, self.steps or 0) if self.sweep == "reverse" else range(0)
        return range((self.position if self.sweep == "first" else self.steps) or 0)


class Found(NamedTuple):
    """What an earlier process has left: its newest durable point, and what was to be done then."""

    point: Point
    working: list[Any]  # its working state, if it had one; in the first sweep perhaps the state before, too
    cotangent: list[Any]  # leaves, encoded
    rest: Remaining


class Named(dict[str, Any]):
    """A token of several parts, each of which is named where it differs."""


def named_leaves(name: str, tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree by names such as ``params[0]['rate']``, and its structure under the name itself."""
    accessors, leaves, structure = optree.tree_flatten_with_accessor(tree, none_is_leaf=True, namespace=NAMESPACE)
    if len(leaves) > ONE_BY_ONE or (len(leaves) == 1 and not len(accessors[0])):
        return {name: tree}
    empty = optree.tree_unflatten(structure, [0.0] * len(leaves))
    return {name: empty} | {accessor.codify(name): leaf for accessor, leaf in zip(accessors, leaves, strict=True)}


def structure_of(tree: Any) -> optree.PyTreeSpec:
    """Return the structure of a tree whose leaves can be written to a file."""
    return optree.tree_structure(tree, none_is_leaf=True, namespace=NAMESPACE)


def schedule_text(schedule: Schedule) -> str:
    if not is_dataclass(schedule):
        return repr(schedule)
    values = ", ".join(f"{field.name}={getattr(schedule, field.name)!r}" for field in fields(schedule))
    return f"{type(schedule).__name__}({values})"


class DurableJournal:
    """Finds how far an earlier process came with the same call, and writes down how far this one comes.
    `token`: pytree that identifies the call further; a `Named` one tells which part differs."""

    def __init__(
        self,
        session: DurableStates,
        state: Any,
        step: Callable[..., Any],
        token: Any,
        schedule: Schedule,
        until: Callable[..., Any] | None = None,
        restorers: RowRestorers = MappingProxyType({}),
    ) -> None:
        self.session = session
        self.initial, self.step, self.schedule, self.restorers = state, step, schedule, restorers
        parts = token if isinstance(token, Named) else named_leaves("token", token)
        self.token = dict(parts)
        given = {"step": step} | self.token | named_leaves("state", state)
        self.call = {name: text_or_digest(value, f"resume: {name}") for name, value in given.items()}
        if until is not None:
            self.call["until"] = function_digest(until)
        self.call["schedule"] = schedule_text(schedule)
        self.structure = structure_of(state)
        self.codec = LeafCodec(state, self.token)
        self.now = Point("first")  # what a point made now says
        self.cotangent: Any = None
        self.marks: list[Mark] = []  # of the process before, while they are of use
        self.rows: dict[str, dict[int, list[Any]]] = {}  # of its steps, by sweeps, not yet decoded
        self.found: Found | None = None
        self.compared: dict[int, str] | None = None  # digests of the rows of steps made again
        self.digest_due = 0.0
        self.ends: list[Any] | None = None  # leaves of x_{N-1}, from which there is x_N, while they are not yet written
        self.made = 0

    # ------------------------------------------------------------------------------------------------ the first sweep

    def begin(self, steps: int | None) -> tuple[Any, list[Any], int] | None:
        """Look for an earlier first sweep; if it is complete, return x_N, [x_{N-1}] unless that is saved, and N."""
        self.steps, self.now, self.compared, self.cotangent = steps, Point("first", steps=steps), None, None
        self.marks = self.session.begin(self.call | {"steps": steps})
        taken = [sweep for sweep, take in self.restorers.items() if take is not None and self.marks]
        self.rows = {sweep: self.session.log(sweep).read() for sweep in taken}
        self.found = self.find()
        if self.found is None:
            remove_files(mark.path for mark in self.marks)
            self.marks = []
            return None
        point, self.compared, self.now.first = self.found.point, {}, self.found.point.first
        for error in self.session.adopt(self.found.rest.saved, self.initial, self.marks):
            warn(f"{error}; what was in it is computed again")
        if point.first:
            self.check_same(point.first, self.step_again(0, self.initial), "step 0", "x_1")
        if point.sweep == "first":
            return None
        count, self.now.first_actions = point.steps or 0, point.first_actions
        final, last = self.final(count)
        self.restore_rows("first", range(count))
        self.last = last
        return final, [] if count - 1 in self.saved else [last], count

    def find(self) -> Found | None:
        """Return the newest point that can be read back with all its rows; None if there is none."""
        for mark in [mark for mark in self.marks if mark.kind == "point"][::-1]:
            try:
                text, *leaves = self.session.read(mark)
                point = Point(**json.loads(text))
                for sweep, rows in self.rows.items():
                    if not rows.keys() >= set(point.done(sweep)):
                        raise DamagedState(f"Disk: {self.session.log(sweep).path} has lost rows")
            except DamagedState as error:
                warn(f"{error}; the sweep goes on from an earlier point, or begins again")
                continue
            n = self.structure.num_leaves
            count = 0 if point.position is None else n if point.sweep == "reverse" else len(leaves)
            working = [self.structure.unflatten(leaves[i : i + n]) for i in range(0, count, max(n, 1))]
            if point.position is not None and not n:
                working = [self.initial] * 2
            return Found(point, working, leaves[count:], self.remaining(point))
        return None

    def remaining(self, point: Point) -> Remaining:
        """Return what was left to do at a point."""
        cursor, actions = Cursor(self.steps), self.schedule.forward(self.steps)
        cursor.run(islice(actions, point.point if point.sweep == "first" else point.first_actions))
        if point.sweep == "reverse":
            self.saved, steps = sorted(cursor.saved), point.steps or 0
            cursor.end_forward(steps)
            actions = self.schedule.reverse(steps, self.saved)
            cursor.run(islice(actions, point.point))
            if cursor.next != point.left:
                raise DamagedState(f"Disk: {self.session.path}: a point contradicts the schedule; {ANEW}")
        begun, position = point.point, cursor.working
        if point.position is not None:
            if position is not None and point.position < position:
                actions, begun = chain([Advance(point.position, position)], actions), begun - 1
            position = point.position
        return Remaining(self.numbered(actions, begun), sorted(cursor.saved), position, point.left)

    def forward(self) -> tuple[Iterator[Action], int | None, list[Any]]:
        """Skip the completed part of the first sweep: return the actions left, the working index (None: none done) and its state.
        Where the length is unknown, the state before the working one follows it if the driver had a copy."""
        found, self.found = self.found, None
        if found is None:
            self.restore_rows("first", range(0))
            return self.numbered(self.schedule.forward(self.steps), 0), None, []
        self.restore_rows("first", range(found.rest.position or 0))
        return found.rest.actions, found.rest.position, found.working

    def with_digest(self, step: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """Return the step of the first sweep, which notes a digest of x_1."""

        def watched(k: int, x: Any) -> Any:
            y = step(k, x)
            if not k:
                self.now.first = digest(y, "resume: a state")
            return y

        return watched

    def end_forward(self, final: Any, last: list[Any], steps: int) -> None:
        """Store the end of the first sweep: x_N, and [x_{N-1}] unless that is saved."""
        session, now = self.session, self.now
        self.saved, now.sweep, now.first_actions, session.point = session.indices(), "reverse", session.point, 0
        now.left = now.steps = steps
        before = last[0] if last else self.state_at(steps - 1, steps - 1) if steps else final
        self.ends = self.leaves(max(steps - 1, 0), copy_state(before))
        if nbytes(self.ends) > GATHERED_BYTES:
            self.write_ends()
        if steps and monotonic() >= session.due:
            self.commit()

    # ---------------------------------------------------------------------------------------------- the reverse sweep

    def reverse(self, steps: int, seed: Any, token: Any, pull: Pull) -> tuple[Remaining, Any, list[Any]] | None:
        """Skip the completed part of the reverse sweep: return what remains, the cotangent, and the working state, in a list.
        There is none in it if the actions begin with a load or x_{N-1}. ValueError if the seed, or the pull (by `token`), has changed.
        None where the journal has left for another folder: the first sweep is to be made again."""
        session, now, found, self.found = self.session, self.now, self.found, None
        now.seed, now.pulled, now.state = digest((seed, token), "resume: the cotangent"), "", ""
        self.codec = LeafCodec(self.initial, self.token, seed)
        self.container = optree.tree_structure(seed, none_is_leaf=True)
        now.left = now.steps = steps
        if found is not None:
            point, working = found.point, found.working[-1:]
            if point.seed and point.seed != now.seed:
                if self.begins_elsewhere():
                    return None
                raise AnotherCall(
                    f"Disk: {session.path} belongs to a reverse sweep from another cotangent of x_N; repeat the same call, or {ANEW}"
                )
            if point.left < steps:
                if point.left:
                    x = self.state_at(point.left - 1, point.left, working[0] if working else None, point.position)
                    self.check_same(point.state, x, f"step {point.left - 1}", f"x_{point.left}")
                self.compared = {}
                g = pull(steps - 1, canonical(session.copy(self.last)), session.copy(seed))
                self.check_same(point.pulled, g, f"the pull of step {steps - 1}", "cotangent")
            self.restore_rows("reverse", range(point.left, steps))
            if point.left < steps:
                now.pulled, now.state, now.left = point.pulled, point.state, point.left
                seed = self.container.unflatten(self.codec.decode(found.cotangent))
            self.last, self.cotangent, self.marks = None, seed, []
            return found.rest, seed, working
        self.restore_rows("reverse", range(0))
        self.marks, session.point = [], 0
        self.cotangent = seed
        actions = self.numbered(self.schedule.reverse(steps, self.saved), 0)
        return Remaining(actions, session.indices(), steps - 1, steps), seed, []

    def begins_elsewhere(self) -> bool:
        """Leave the folder, which is of another cotangent, where there can be another one; return whether that was done."""
        return False

    def with_points(self, pull: Pull) -> Pull:
        """Return the pull, after which a durable point is made where one is due."""
        session, now, resumed = self.session, self.now, self.now.pulled or self.now.first

        def noted(k: int, x: Any, g: Any) -> Any:
            started = monotonic()
            now.state, self.cotangent = "", None
            if started >= self.digest_due or (started >= session.due and session.ready()):
                now.state = digest(x, "resume: a state")
                self.digest_due = started + ((monotonic() - started) / COMPARISON_SHARE if session.every else 0.0)
            try:
                g = pull(k, x, g)
            except RuntimeError as error:
                if resumed:
                    error.add_note(f"Disk: states in {session.path} are of an earlier process; if the call is not the same, {ANEW}")
                raise
            self.cotangent, now.left = g, k
            if not now.pulled:
                self.check_container(g)
                now.pulled = digest(g, "resume: a cotangent")
            if (not k and session.keeps_result()) or monotonic() >= session.due:
                self.commit()
            return g

        return noted

    def commit(self, position: int | None = None, *working: Any) -> None:
        """Make a durable point, unless the last one is still being written, or the last pull has no digest.
        `working`, between two steps: x_position, and, while the length is unknown, the driver's copy of the state before it."""
        session, now = self.session, self.now
        begun = now.sweep == "reverse" and now.left < (now.steps or 0)
        if (begun and now.left and not now.state) or not session.ready():
            return
        leaves = [leaf for x in working for leaf in self.leaves(position or 0, copy_state(x))]
        if now.sweep == "reverse":
            self.write_ends()
        now.point, now.position = session.point, position
        if begun:
            self.check_container(self.cotangent)
            leaves += self.codec.encode(optree.tree_leaves(copy_state(self.cotangent), none_is_leaf=True))  # type: ignore[arg-type]
        session.commit(now.left if now.sweep == "reverse" else position or 0, [json.dumps(vars(now)), *leaves])

    def check_container(self, g: Any) -> None:
        structure = optree.tree_structure(g, none_is_leaf=True)
        if structure != self.container:
            raise TypeError(
                f"resume: the pull of step {self.now.left} returned a cotangent of structure {structure}, the seed has {self.container}; "
                "all cotangents must have one structure"
            )

    def leaves(self, index: int, x: Any) -> list[Any]:
        leaves, structure = optree.tree_flatten(x, none_is_leaf=True, namespace=NAMESPACE)
        if structure != self.structure:
            self.session.refuse(index, structure, self.structure)
        return leaves

    def add_row(self, k: int, leaves: list[Any]) -> None:
        """Store what step k returns besides its state or cotangent (leaves are copied): one row for every step, or for none."""
        if self.compared is not None:
            self.compared[k] = digest(leaves, "resume: a row")
        else:
            self.session.log(self.now.sweep).append(k, self.codec.encode(leaves))

    # ------------------------------------------------------------------------------------------------- what is there

    def final(self, steps: int) -> tuple[Any, Any]:
        """Return x_N and x_{N-1}."""
        finals = [mark for mark in self.marks if mark.kind == "final"]
        for mark in finals:
            try:
                last = self.structure.unflatten(self.session.read(mark))
                return self.step_again(steps - 1, last) if steps else last, last
            except DamagedState as error:
                warn(f"{error}; x_{steps} is computed again")
        if not finals:
            warn(f"Disk: {self.session.path} has lost its file of x_{steps} (*.final), which is computed again")
        last = self.state_at(steps - 1, steps - 1)
        self.now.steps = steps
        self.ends = self.leaves(steps - 1, copy_state(last))
        return self.step_again(steps - 1, last), last

    def write_ends(self) -> None:
        if self.ends is not None:
            self.session.write_final(self.now.steps or 0, self.ends)
            self.ends = None

    def restore_rows(self, sweep: str, done: range) -> None:
        """Give the rows of the steps that are done to whoever restores them."""
        self.now.sweep, compared, self.compared = sweep, self.compared or {}, None
        take, kept = self.restorers.get(sweep), self.rows.pop(sweep, {})
        if take is None:
            return
        if not done:
            self.session.log(sweep).clear()
        rows = {k: self.codec.decode(kept[k]) for k in done}
        for k in rows.keys() & compared.keys():
            self.check_same(compared[k], rows[k], f"step {k}", "row, of outs or gradients by inputs,")
        take(rows)

    # ------------------------------------------------------------------------------------------------ making again

    def check_same(self, noted: str, found: Any, what: str, result: str) -> None:
        """Raise where what was found again has another digest than the one that was noted."""
        if noted != digest(found, "resume: a result"):
            raise AnotherCall(
                f"Disk: {self.session.path} belongs to another call: running {what} again gave another {result}. Likely causes: a changed "
                f"closure, global, helper function or attribute, or random numbers. Repeat the same call, or {ANEW}"
            )

    def step_again(self, k: int, x: Any) -> Any:
        self.made += 1
        return canonical(self.step(k, canonical(self.session.copy(x))))

    def state_at(self, index: int, stop: int, working: Any = None, position: int | None = None) -> Any:
        """Return x_stop, computed from the newest state up to x_index that can be read back, or from the working state x_position."""
        start, x = 0, self.initial
        if position is not None and position <= index:
            start, x = position, working
        for earlier in reversed(self.session.indices()):
            if start < earlier <= index:
                try:
                    start, x = earlier, self.session.peek(earlier)
                    break
                except DamagedState as error:
                    if not error.told:
                        warn(f"{error}; x_{index} is computed from an earlier one")
        for k in range(start, stop):
            x = self.step_again(k, x)
        return x

    def numbered(self, actions: Iterator[Action], start: int) -> Iterator[Action]:
        """Return the actions; the session counts those that have begun."""
        self.session.point = start
        return (action for self.session.point, action in enumerate(actions, start + 1))


class DurableSession(DurableStates):
    """Durable states with the journal by which a sweep goes on."""

    journal = DurableJournal
