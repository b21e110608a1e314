"""Chains of a compiled step without a tape: their arrays, and calls of their compiled loops for segments of steps, forward and in reverse.

A state is a tuple of arrays, one for each leaf, into which nothing here writes: a storage in main memory keeps it without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias
from weakref import ref

import numpy as np
import optree

from dualad.graph.handled import own
from dualad.support.equality import same_bits
from dualad.support.progress import Bar

from ..support.checks import too_many
from ..support.costs import CALL_SECONDS, REUSED_BYTES
from ..sweep.stats import fill
from .other_leaves import NotCompiled, join_tangents
from .spec import Loop, StepSpec, like_leaves
from .stepper import Stepper

State: TypeAlias = tuple[np.ndarray, ...]


class BufferPool:
    """States like one; those that are not small in memory that is used again as soon as nobody refers to the arrays in it.
    What was freed last is taken first: it is still in the cache."""

    def __init__(self, like: State, nbytes: int) -> None:
        self.like, self.small = like, nbytes < REUSED_BYTES
        self.leases: dict[int, tuple[ref, memoryview, list[memoryview]]] = {}
        #: ended leases, put there by the list's own append: in a callback written in Python an interrupt would be lost
        self.ended: list[ref] = []
        self.spare: State | None = None  # a state that only this refers to, so that two in turn need one lease a call
        self.clear()

    def take(self) -> State:
        if self.small:
            return tuple(map(np.empty_like, self.like))
        self.reclaim()
        return tuple(map(self.lease, self.like, self.free))

    def lease(self, like: np.ndarray, free: list[memoryview]) -> np.ndarray:
        memory = free.pop() if free else np.empty(like.nbytes, np.uint8).data
        array = np.frombuffer(memory, like.dtype)  # the base of all views
        end = ref(array, self.ended.append)
        self.leases[id(end)] = end, memory, free
        return array.reshape(like.shape)

    def reclaim(self) -> None:
        """Take back the memory of arrays that nobody refers to any more."""
        while self.ended:
            lease = self.leases.pop(id(self.ended.pop(0)), None)
            if lease is not None:
                _, memory, free = lease
                free.append(memory)

    def clear(self) -> None:
        """Forget the memory that is free; what is in use is not taken back."""
        self.spare = None
        self.leases.clear()
        self.ended.clear()
        self.free: list[list[memoryview]] = [[] for _ in self.like]


class Pace:
    """How many steps a compiled call makes: after each the next one may make more or fewer, so that Ctrl-C is heard between them."""

    def __init__(self) -> None:
        self.steps = 64

    def timed(self, call: Callable[..., Any], steps: int, arguments: tuple) -> None:
        started = perf_counter()
        call(*arguments)
        seconds = perf_counter() - started
        if seconds > 10 * CALL_SECONDS:
            self.steps = max(self.steps // 2, 1)
        elif seconds < CALL_SECONDS and steps == self.steps:
            self.steps *= 2


class Segments:
    """A chain's compiled loops, bound to its parameters and inputs: `start` is x_0, `outs` have a row for each step.
    `made` counts the steps that were made, and `on_steps` is told how many each call has made."""

    def __init__(self, stepper: Any, length: int | None) -> None:
        self.stepper = stepper
        self.start: State = tuple([np.array(leaf, order="C") for leaf in stepper.state])
        self.constants = list(map(constant_array, (*stepper.params, *stepper.inputs)))
        self.outs = [np.zeros((length or 0, *out.shape), out.dtype) for out in stepper.outs[0]] if stepper.spec.outputs else []
        self.pool, self.end, self.length = BufferPool(self.start, stepper.nbytes), np.zeros((), np.int64), length
        self.room: dict[Any, list[np.ndarray]] = {}  # where the loops work, one after the other
        self.renew(0, self.start)
        self.made, self.pace = 0, Pace()
        self.plain: dict[int, bool] = {}  # the steps that the plain function made, and whether the loops know their paths
        self.on_steps: Callable[[int], Any] | None = None

    @property
    def remarks(self) -> str:
        """Return for what the steps call Python, and what paths they have taken, in the words of `stats.reason`."""
        calls, count = self.loops.in_python, len(self.plain)
        called = f"; each step calls Python (some 10 us a call) for {'; '.join(calls)}" if calls else ""
        return called + self.stepper.paths + (f"; {count} step{'s' * (count > 1)} made by the plain function" if count else "")

    def renew(self, k: int, x: State) -> None:
        """Take the loops of the paths that the step is known to take, and takes in the next steps."""
        self.stepper.look_ahead(k, x, self.length)
        self.loops = self.stepper.advance_loops()
        self.work = [array for unit in self.loops.work(self.room) for array in unit]

    def learn(self, k: int, x: State) -> State | None:
        """Let the loops know the path that step k, or the predicate, takes from x_k; else return what the plain function makes."""
        if self.stepper.learn(k, x):
            self.renew(k, x)
            return None
        leaves, outs = self.stepper.make_plainly(k, x)
        self.stepper.warn()
        try:
            new = tuple([np.array(leaf, like.dtype, order="C") for leaf, like in zip(leaves, self.start, strict=True)])
            for rows, out in zip(self.outs, outs, strict=True):
                rows[k] = out
        except OverflowError as error:
            raise NotCompiled(str(error)) from error
        self.plain[k] = self.stepper.loud
        self.made += 1
        if self.on_steps is not None:
            self.on_steps(1)
        return new

    def advance(self, first: int, stop: int, x: State) -> tuple[State, int]:
        """Make the steps first ... stop - 1; return the state, and where a predicate ended the chain: `stop` if it did not."""
        while first < stop:
            end = min(first + self.pace.steps, stop)
            new = self.pool.take()
            other = new if end == first + 1 else self.pool.spare or self.pool.take()
            arguments = (first, end, self.end, *x, *new, *other, *self.constants, *self.outs, *self.work)
            reached, left = self.call(self.loops.advance, first, end, arguments)
            if made := reached - first:
                x = new if made % 2 else other
            if other is not new:
                self.pool.spare = new if x is other else other
            if left:
                if made and self.ends(reached, x):
                    return x, reached
                after, first = self.learn(reached, x), reached
                if after is None:
                    continue
                x, reached = after, reached + 1
            elif reached < end:
                return x, reached
            first = reached
            if first < stop and self.ends(first, x):
                break
        return x, first

    def call(self, loops: Callable[..., Any], first: int, end: int, arguments: tuple) -> tuple[int, bool]:
        """Call loops that make steps; return which is the next one, and whether it is on a path that they do not know.
        Where an index or an integer of theirs is out of range, the plain steps are to name the line."""
        try:
            self.pace.timed(loops, end - first, arguments)
        except (IndexError, OverflowError) as error:
            raise NotCompiled(str(error)) from error
        reached = self.end.item()
        left = reached < 0
        reached = ~reached if left else reached
        self.made += reached - first
        if self.on_steps is not None:
            self.on_steps(reached - first)
        return reached, left

    def ends(self, k: int, x: State) -> bool:
        """Return whether the predicate ends the chain before step k; False where there is none."""
        return self.stepper.until is not None and self.stepper.asked(k, x)

    def reserve(self, count: int) -> None:
        """Make room for the outs of so many steps, where their number is not known."""
        for i, out in enumerate(self.outs):
            if len(out) < count:
                self.outs[i] = np.zeros((max(count, 2 * len(out)), *out.shape[1:]), out.dtype)
                self.outs[i][: len(out)] = out


class Reversal:
    """The loops of a reverse sweep over segments, called with its arrays; in the first sweep it fills buffers only."""

    def __init__(self, segments: Segments, loops: Callable[[], Any]) -> None:
        self.segments, self.known_loops, self.pace = segments, loops, Pace()
        self.release()
        self.renew()

    def release(self) -> None:
        """Free the arrays, which are made again for the next sweep."""
        self.of, self.work = None, list[Any]()
        self.begin([], [], [], [])

    def renew(self) -> None:
        """Take the loops of the paths that the step is known to take."""
        self.loops, self.of = self.known_loops(), self.segments.stepper.compiled
        self.work = self.loops.work(self.segments.room)

    def begin(self, d: list[np.ndarray], e: list[np.ndarray], spare: Any, states: list[np.ndarray]) -> None:
        """Take the arrays of the cotangents (`d` of the outs, `e` of the rows, `spare` of the state), and of the states in a block."""
        self.d, self.e, self.spare, self.states = d, e, spare, states

    def buffer(self, length: int) -> list[np.ndarray]:
        """Return arrays for the states of so many steps but the first."""
        return [np.empty((length - 1, *leaf.shape), leaf.dtype) for leaf in self.segments.start]

    def arguments(self) -> tuple[np.ndarray, ...]:
        """Return the arguments of `fill` besides states, when its loops are those of the paths that are known."""
        segments = self.segments
        if self.of is not segments.stepper.compiled:
            self.renew()
        return (*segments.constants, segments.end, *segments.outs, *self.work[0])

    def fill(self, first: int, stop: int, x: State, states: list[np.ndarray]) -> list[np.ndarray]:
        """Put the states x_{first + 1} ... x_{stop - 1} into a buffer, and return it."""
        segments, k, given = self.segments, first, self.arguments()
        while k < stop - 1:
            end = min(k + segments.pace.steps, stop - 1)
            into = [rows[k - first : end - first] for rows in states]
            reached, left = segments.call(self.loops.fill, k, end, (k, end + 1, *x, *into, *given))
            if reached > k:
                x, k = state_in(states, reached - first), reached
            if left:
                if (new := segments.learn(k, x)) is not None:
                    for rows, leaf in zip(states, new, strict=True):
                        rows[k - first] = leaf
                    x, k = new, k + 1
                given = self.arguments()
        return states

    def pull(self, first: int, stop: int, x: State, states: list[np.ndarray], gs: Any, sums: list[np.ndarray], plainly: Any) -> Any:
        """Pull the cotangents back over x_first and the states behind it; return those of the state. Sums are added to in place.
        Back over a step that the plain function made, `plainly` pulls them."""
        constants = self.segments.constants
        if self.of is not self.segments.stepper.compiled:
            self.renew()
        shares = [np.empty_like(sums[i]) for i in self.loops.shares]
        plain = self.segments.plain and sorted([k for k, known in self.segments.plain.items() if not known and first <= k < stop])
        while first < stop:
            if plain and plain[-1] == stop - 1:
                k = stop = plain.pop()
                gs = plainly(k, x if k == first else state_in(states, k - first), gs, sums)
                continue
            k = max(stop - self.pace.steps, plain[-1] + 1 if plain else first)
            before = x if k == first else state_in(states, k - first)
            between = [rows[k - first : stop - first - 1] for rows in states]
            cotangents = (*gs, *self.spare, *self.d, *self.e, *sums, *shares)
            self.pace.timed(self.loops.pull, stop - k, (k, stop, *before, *between, *constants, *cotangents, *self.work[1]))
            if (stop - k) % 2:
                gs, self.spare = self.spare, gs
            stop = k
        return gs


def state_in(states: list[np.ndarray], i: int) -> State:
    """Return the state i steps behind the one before a buffer."""
    return tuple([rows[i - 1, ...] for rows in states])


def constant_array(leaf: Any) -> np.ndarray:
    """Return a parameter or input as a read-only array; of contiguous ones no copy is made."""
    array = np.asarray(leaf, order="C").view(np.ndarray)
    if not (array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative):
        array = np.array(array, array.dtype.newbyteorder("="), order="C")
    array = array.view()
    array.flags.writeable = False
    return array


# --- without a tape -------------------------------------------------------------------------------------------------------------


def run_compiled(spec: StepSpec, loop: Loop) -> Any:
    """Run the chain of a compiled step on plain values or Duals; raise `NotCompiled` where it has no compiled loops."""
    steps, max_steps = loop.steps, loop.max_steps
    if steps == 0:
        raise NotCompiled("there are no steps")
    started = perf_counter()
    stepper = Stepper(spec, spec.state, spec.inputs, spec.params, loop.until)
    segments = Segments(stepper, steps)
    if stepper.due:
        probe(stepper, segments, steps)
    advance = partial(advanced_twice, segments) if loop.check else segments.advance
    x, reached = segments.start, 0
    with Bar(loop.progress, "chain") as bar:
        bar.start(steps)
        segments.on_steps = bar.advance if loop.progress else None
        if steps is not None:
            x, reached = advance(0, steps, x)
        else:
            stop = 0
            while reached == stop and not segments.ends(reached, x):
                if reached == max_steps:
                    raise too_many(max_steps)
                segments.reserve(2 * reached + 64)
                stop = 2 * reached + 64 if max_steps is None else min(2 * reached + 64, max_steps)
                x, reached = advance(reached, stop, x)
            if not reached:
                raise NotCompiled("it makes no step")
    if loop.stats is not None:
        reason = segments.remarks.removeprefix("; ")
        fill(loop.stats, steps=reached, advances=segments.made, reason=reason, seconds=perf_counter() - started)
    final = spec.tree(join_tangents(like_leaves(x, stepper.kinds), stepper.state_splits))
    if not spec.outputs:
        return final
    outs = join_tangents([out[:reached] for out in segments.outs], stepper.outs[1])
    return final, optree.tree_unflatten(stepper.out_structure, outs)


def advanced_twice(segments: Segments, first: int, stop: int, x: State) -> tuple[State, int]:
    """Make steps, and make them again: another result raises."""
    final, reached = segments.advance(first, stop, x)
    on_steps, segments.on_steps = segments.on_steps, None
    again, _ = segments.advance(first, reached, x)
    segments.on_steps = on_steps
    if not all(map(same_bits, final, again)):
        raise RuntimeError(
            f"chain: the compiled steps {first} to {reached - 1}, made twice from the same state, gave two results, so the gradient would "
            f"be wrong. Without jit, check=True names the first step that differs"
        )
    return final, reached


class Retraced(Exception):
    """The program of a chain's step was stale: it has been traced again, and the chain is to be run once more."""


def probe(stepper: Stepper, segments: Segments, steps: int | None) -> None:
    """Compare one step, a later one each time: in x_0 a change may not show. Raise `Retraced` where the program was stale."""
    source, (kinds, outs, _) = stepper.spec.source, stepper.base.outputs
    k = source.verifications + 1 if steps is None else min(source.verifications + 1, steps - 1)
    segments.reserve(k + 1)
    x, reached = segments.advance(0, k, segments.start)
    if reached < k:
        k, x = 0, segments.start
    new, reached = segments.advance(k, k + 1, x)
    segments.made = 0
    if reached == k:  # a predicate ended it
        return
    leaves = stepper.plain_leaves(k, x)
    made = [*like_leaves(new[: len(kinds)], [out.kind for out in kinds]), *(rows[k] for rows in segments.outs[: len(outs)])]
    evaluate: Any = lambda compiled, _: compiled.program.run(*map(own, leaves))
    entry = stepper.entry  # which knows the paths by now
    del x, new
    segments.pool.clear()  # a plain step takes memory of its own
    right, _ = source.compared(entry, stepper.call, leaves, made, evaluate, 8)
    if right is not entry:
        raise Retraced
