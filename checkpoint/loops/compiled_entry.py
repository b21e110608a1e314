"""A chain of a compiled step on a tape: one compiled call evaluates, or pulls back, a block of steps.

To the sweep a block is one step: its schedule saves states between blocks, and the pull of a block computes the states inside of it again,
into one buffer. So Python is entered once an action, and every schedule and storage works unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any
from weakref import proxy

import numpy as np
import optree

from dualad.core.dispatch import dtype_of
from dualad.core.traced import Traced
from dualad.forward.directions import Directions, wrap
from dualad.forward.dual import Dual
from dualad.jit.verify import evaluating
from dualad.support.byte_sizes import format_bytes, parse_bytes

from ..reverse.tape import Tape
from ..schedules.blocks import SCHEDULES, Blocks, blocks_of
from ..storage import Memory
from ..storage.memory import LEAF_BYTES, identity
from ..storage.states import nbytes
from ..support.checks import too_many
from ..support.costs import ADDITION_SECONDS
from ..sweep.player import BLOCK_STATES, SWEEP_STATES, Player
from ..sweep.stats import Stats
from .compiled import Reversal, Segments, State, probe, state_in
from .entry import ChainEntry, Lowered, overhead_bytes, record_chain, unowned
from .other_leaves import NotCompiled, join_tangents, split_tangents
from .recorded import EagerEntry
from .results import Snapshot, unknown_outs
from .spec import BY_ZEROS, IN_MEMORY, Loop, StepSpec, like_leaves
from .stepper import Stepper


def record_compiled(spec: StepSpec, tape: Tape, loop: Loop, run: Callable[[StepSpec, Loop], Any]) -> Any:
    """Run the chain of a compiled step in a sweep and record it as one operation; raise `NotCompiled` where it has no compiled loops."""
    steps, storage, stats = loop.steps, loop.storage, loop.stats or Stats()
    if steps == 0:
        raise NotCompiled("there are no steps")
    in_memory = type(storage) is Memory and storage.compress is None
    if type(storage) is Memory and storage.copy is not None:
        raise NotCompiled("its storage has a copy= of its own")
    entry = CompiledEntry(Lowered(spec, tape, run), loop)
    stepper, segments = entry.stepper, entry.segments
    budget, alone = None, ""
    if loop.memory is not None:
        budget = parse_bytes(loop.memory, "chain", "memory")
        in_use = BLOCK_STATES if in_memory else BLOCK_STATES + SWEEP_STATES + 1  # those of a sweep whose storage copies, and x_N
        budget -= in_use * stepper.nbytes + entry.held_bytes()
        if budget < stepper.nbytes:
            raise NotCompiled(f"the budget does not hold {in_use + 1} states beside parameters, inputs and outs")
        needed = stepper.entry.checks.needed + stepper.nbytes + nbytes(stepper.params)
        if needed > budget and stepper.entry.checks.reason is None:
            alone = f"; not compared with a plain step, which takes {format_bytes(needed)}"
    if stepper.due and not alone:
        probe(stepper, segments, steps)
    block = 1 if storage.durable and loop.until is not None else loop.block  # the manifest says how many blocks there were
    choose = blocks_of if type(loop.schedule) in SCHEDULES else blocks_of.__wrapped__
    entry.cut(
        choose(
            steps,
            stepper.nbytes,
            budget,
            segments.loops.units[0].source.additions * ADDITION_SECONDS,
            schedule=loop.schedule,
            block=block,
            around=0 if budget is None else (2 + len(spec.state)) * LEAF_BYTES,
            resident=in_memory and not loop.check,
        ),
        stays=in_memory and not loop.check and loop.until is None,
    )
    entry.reason = entry.blocks.reason + alone
    stats.reason = entry.reason + segments.remarks
    entry.sweep = (
        OneBlock(proxy(entry), stats)
        if entry.keeps_last and entry.blocks.size == steps and not loop.progress
        else swept_blocks(entry, tape, loop, stats)
    )
    tape.sweeps = [*getattr(tape, "sweeps", ()), entry.sweep]
    leaves = entry.first_sweep()
    outs = entry.outs() if spec.outputs else []
    return record_chain(entry, tape, leaves, outs, partial(optree.tree_unflatten, stepper.out_structure))


def swept_blocks(entry: CompiledEntry, tape: Tape, loop: Loop, stats: Stats) -> Player:
    """Return the sweep of a chain, whose steps are blocks."""
    steps, schedule, storage = entry.steps, entry.blocks.schedule, loop.storage
    options: dict[str, Any] = {"progress": loop.progress, "check": loop.check}
    if type(storage) is Memory and storage.compress is None:
        storage = replace(storage, copy=identity)  # nobody writes into a state
    if schedule.records:
        options["record"] = unowned(entry.record_block)
    if storage.durable:
        options |= entry.durable_options(tape, loop.token, entry.blocks.size, loop.until)
    if steps is None:
        options["until"] = unowned(entry.ends)
    blocks = None if steps is None else -(-steps // entry.blocks.size)
    step: Any = unowned(entry.make_block)
    step.many = unowned(entry.advance)
    return Player(step, entry.segments.start, blocks, schedule, storage, stats, **options)


class OneBlock:
    """The sweep of a chain that is one block, whose states stay in memory: there is nothing to schedule, and x_0 is all that is saved."""

    def __init__(self, entry: Any, stats: Stats) -> None:
        self.entry, self.stats, self.forwards, self.backwards, self.seconds = entry, stats, 0, 0, 0.0
        stats.schedule = str(entry.blocks.schedule)

    def forward(self) -> State:
        """Make the steps; return x_N."""
        started = perf_counter()
        self.forwards += 1
        try:
            return self.entry.keep(0, self.entry.segments.start)
        finally:
            self.report(started)

    def backward(self, pull: Callable[..., Any], cotangent: Any, token: Any = None) -> Any:
        """Pull a cotangent of x_N back to x_0; called again, make the steps again first."""
        if self.entry.inside is None:
            self.forward()
        started = perf_counter()
        self.backwards += 1
        try:
            return pull(0, self.entry.segments.start, cotangent)
        finally:
            self.report(started)

    def release(self) -> None:
        """Free the states, if the entry is still there."""
        with suppress(ReferenceError):
            self.entry.inside = None

    def report(self, started: float) -> None:
        stats = self.stats
        self.seconds += perf_counter() - started
        stats.saves, stats.loads, stats.seconds = self.forwards, self.backwards, self.seconds
        stats.peak_states, stats.peak_bytes = 1, self.entry.stepper.nbytes


class CompiledEntry(ChainEntry):
    """The entry of a chain of a compiled step; `steps` is the number of its steps, None until it is known."""

    blocks: Blocks

    def __init__(self, lowered: Lowered, loop: Loop) -> None:
        self.lowered, self.spec = lowered, lowered.spec
        self.steps, self.max_steps = loop.steps, loop.max_steps
        self.stepper = stepper = Stepper(self.spec, lowered.state, lowered.inputs, lowered.params, loop.until)
        self.segments = Segments(stepper, loop.steps)
        rows, params = lowered.active_inputs, lowered.active
        self.reversal = Reversal(self.segments, partial(stepper.pull_loops, rows, params, lowered.nan_safe))
        self.keeps_last = False  # whether the states inside of the last block stay in memory
        self.inside: list[np.ndarray] | None = None  # they
        self.missing = 0  # steps that the first block has less than the others
        self.pulled = self.rows_made = 0
        self.reason = ""
        self.made_elsewhere = False  # whether another process has made steps

    def cut(self, blocks: Blocks, stays: bool) -> None:
        """Cut the chain into blocks; in memory, the states inside of the last one may stay."""
        self.blocks, records = blocks, blocks.schedule.records
        self.keeps_last = stays and blocks.size > 1 and not records
        if self.keeps_last:
            self.missing = -(self.steps or 0) % blocks.size
        if not (records or self.keeps_last):
            self.reversal.release()

    def held_bytes(self) -> int:
        """Return the bytes that the chain holds besides states."""
        arrays, sums = [self.segments.work, *self.reversal.work], self.sums()
        work = list({id(array): array for some in arrays for array in some}.values())  # loops share arrays
        shares = [sums[i] for i in self.reversal.loops.shares]
        outs = sum(int(np.prod(out.shape)) * np.dtype(out.dtype).itemsize for out in self.stepper.base.outputs[1])
        return overhead_bytes(self.lowered, outs, self.steps) + nbytes(work) + nbytes(sums) + nbytes(shares)

    # --- the first sweep ----------------------------------------------------------------------------------------------------

    def first_sweep(self) -> list[Any]:
        """Run the chain; return the leaves of x_N, as Duals where there are levels below."""
        stepper, final = self.stepper, self.sweep.forward()
        if self.steps is None:  # its end was found by another process, in blocks of one step
            self.steps = self.sweep.stats.steps
        self.made_elsewhere = self.segments.made < (self.steps or 0)
        self.count()
        leaves = like_leaves(final, stepper.state)
        if stepper.levels:
            leaves = join_tangents(leaves, stepper.state_splits)
        self.last = Snapshot(self.steps or 0, leaves, final=True)
        return leaves

    def outs(self) -> list[Any]:
        """Return the outs, as Duals where there are levels below."""
        if not self.steps:
            raise unknown_outs()
        return join_tangents([out[: self.steps] for out in self.segments.outs], self.stepper.outs[1])

    def block(self, j: int) -> tuple[int, int]:
        """Return the first step of block j, and the first behind it."""
        stop = (j + 1) * self.blocks.size - self.missing
        return max(stop - self.blocks.size, 0), stop if self.steps is None else min(stop, self.steps)

    def advance(self, first: int, last: int, x: State) -> State:
        """Make the steps of blocks first ... last - 1."""
        (start, _), (_, stop) = self.block(first), self.block(last - 1)
        if self.steps is None:
            stop = stop if self.max_steps is None else min(stop, self.max_steps)
            self.segments.reserve(stop)
        x, reached = self.segments.advance(start, stop, x)
        if reached < stop:
            self.steps = reached
        if self.keeps_rows and self.spec.outputs and first == self.rows_made:
            self.add_rows(first, self.segments.outs)
            self.rows_made += 1
        return x

    def ends(self, j: int, x: State) -> bool:
        """Return whether the predicate ended the chain before block j."""
        if self.steps is None:
            k, _ = self.block(j)
            k = k if self.max_steps is None else min(k, self.max_steps)
            if self.segments.ends(k, x):
                self.steps = k
            elif k == self.max_steps:
                raise too_many(k)
        return self.steps is not None

    def record_block(self, j: int, x: State) -> tuple[State, Any]:
        """Make the steps of a block, and return the state with a pullback that knows how much it holds: the states inside of the block."""
        first, stop = self.block(j)
        final, states = self.filled(first, stop, x, self.reversal.buffer(stop - first))
        pullback: Any = partial(self.pull_states, first, stop, x, states)
        pullback.nbytes = nbytes((x, states))
        return final, pullback

    def filled(self, first: int, stop: int, x: State, states: list[np.ndarray]) -> tuple[State, list[np.ndarray]]:
        """Make steps, and return the state behind them with those between them, in the arrays given."""
        states = self.reversal.fill(first, stop, x, states)
        last = state_in(states, stop - first - 1) if stop > first + 1 else x
        return self.segments.advance(stop - 1, stop, last)[0], states

    def make_block(self, j: int, x: State) -> State:
        last = self.keeps_last and j == ((self.steps or 0) - 1) // self.blocks.size
        return self.keep(j, x) if last else self.advance(j, j + 1, x)

    def keep(self, j: int, x: State) -> State:
        """Make the steps of the last block, and keep the states inside of it: it is pulled next."""
        first, stop = self.block(j)
        x, self.inside = self.filled(first, stop, x, self.reversal.buffer(self.blocks.size))
        return x

    # --- rows that another process goes on with -----------------------------------------------------------------------------

    def take_outs(self, rows: dict[int, list[Any]]) -> None:
        self.put_rows(self.segments.outs, rows)
        self.rows_made = len(rows)

    def take_shares(self, rows: dict[int, list[Any]]) -> None:
        self.put_rows(self.reversal.e, rows)

    def put_rows(self, arrays: list[np.ndarray], rows: dict[int, list[Any]]) -> None:
        for j, parts in rows.items():
            first, stop = self.block(j)
            self.segments.reserve(stop)
            for array, part in zip(arrays, parts, strict=True):
                array[first:stop] = part

    def add_rows(self, j: int, arrays: list[np.ndarray]) -> None:
        first, stop = self.block(j)
        self.sweep.add_row(j, [array[first:stop] for array in arrays])

    # --- the reverse sweep --------------------------------------------------------------------------------------------------

    def pull_step(self, j: int, x: State, cotangent: Any) -> Any:
        """Pull the cotangents back through block j."""
        first, stop = self.block(j)
        states, self.inside = self.inside, None
        if self.made_elsewhere and self.stepper.base.outputs[2]:  # so that all paths are known, those of the last step too
            _, states = self.filled(first, stop, x, self.reversal.states)
        elif states is None:
            states = self.reversal.fill(first, stop, x, self.reversal.states)
        cotangent = self.pull_states(first, stop, x, states, cotangent)
        if self.keeps_rows and self.lowered.active_inputs:
            self.add_rows(j, self.reversal.e)
        return cotangent

    def pull_states(self, first: int, stop: int, x: State, states: list[np.ndarray], cotangent: Any) -> Any:
        """Pull the cotangents back over the state before a block and those inside of it."""
        gs, sums = cotangent
        self.pulled += stop - first
        return self.reversal.pull(first, stop, x, states, gs, sums, self.pull_plainly), sums

    def pull_plainly(self, k: int, x: State, gs: list[np.ndarray], sums: list[np.ndarray]) -> list[np.ndarray]:
        """Pull the cotangents back over step k, which the plain function has made; return those of the state, add to the sums."""
        stepper, lowered, spec, outs = self.stepper, self.lowered, self.spec, self.stepper.base.outputs[1]
        n, m, moving = len(spec.floating), len(lowered.active), [out.dtype.kind in "fc" for out in outs]
        likes = [np.zeros(out.shape, out.dtype) for out, moves in zip(outs, moving, strict=True) if moves]
        entry = EagerEntry(lowered, None, exact=False)
        entry.flat = spec.flat_step(spec.source.f)
        with evaluating(), np.errstate(all="ignore"):
            (tape, nodes, results), *_ = entry.record(k, spec.tree(stepper.state_leaves(k, x)))
            cotangents = stepper.duals(gs, lowered.likes[0])
            parts = iter(stepper.duals([part[k, ...] for part in self.reversal.d], likes))
            cotangents += [next(parts) if moves else None for moves in moving]
            pairs = zip(results, cotangents, strict=True)
            shares = tape.sweep_back([(node, g) for node, g in pairs if node is not None and g is not None], nodes)
        for sum_, share in zip(sums, self.parts(shares[n : n + m], lowered.likes[1]), strict=True):
            sum_ += share
        rows = self.parts(shares[n + m :], [leaf[k] for leaf in lowered.likes[2]])
        for stack, share in zip(self.reversal.e, rows, strict=True):
            stack[k] = share
        return self.parts(shares[:n], lowered.likes[0])

    def shares(self, g: list[Any]) -> list[Any]:
        """Return the cotangents of state, parameters and inputs (see `ChainEntry`); of a batch of them, one sweep for each."""
        g = [*g, *[None] * (len(self.spec.state) + len(self.stepper.base.outputs[1]) - len(g))]
        level = None
        for part in g:
            if isinstance(part, Traced):
                if self.is_foreign(part):
                    return self.one_by_one().shares(g)
                if type(part) is Directions:
                    level = part.level
        if level is None:
            return self.swept(g)
        lanes = [self.swept([part.primal[lane] if type(part) is Directions else part for part in g]) for lane in range(level.directions)]
        return [wrap(np.stack(shares), level) for shares in zip(*lanes, strict=True)]

    def is_foreign(self, part: Any) -> bool:
        """Return whether a cotangent is traced by another level than the state."""
        while isinstance(part, Traced):
            if type(part) is not Directions and (type(part) is not Dual or part.level not in self.stepper.levels):
                return True
            part = part.primal
        return False

    def one_by_one(self) -> EagerEntry:
        """Return the same chain with steps that are not compiled, for cotangents that are themselves traced; its first sweep is made."""
        entry = EagerEntry(self.lowered, self.steps, exact=False)
        entry.sweep = entry.new_sweep(BY_ZEROS, IN_MEMORY, Stats())
        entry.first_sweep()
        return entry

    def swept(self, g: list[Any]) -> list[Any]:
        reversal, cotangent = self.reversal, self.begin(g)
        try:
            gs, sums = self.sweep.backward(self.pull_step, cotangent, reversal.d)
        finally:
            self.count()
        (floating, params, inputs), stepper, e = self.lowered.likes, self.stepper, reversal.e
        reversal.release()
        self.segments.pool.clear()
        shares = stepper.duals(gs, floating)
        if params:
            shares += stepper.duals(sums, params)
        if inputs:
            shares += join_tangents(e, stepper.all_splits(len(inputs), rows=True))
        return shares

    def begin(self, g: list[Any]) -> Any:
        """Make the arrays of a reverse sweep; return those of the cotangents and of the sums."""
        floating, _, inputs = self.lowered.likes
        gs = self.parts([g[i] for i in self.spec.floating], floating)
        d, e, sums = list[np.ndarray](), self.zeros(inputs, rows=True), self.sums()
        if self.spec.outputs:
            outs = [(i, out) for i, out in enumerate(self.stepper.base.outputs[1], len(self.spec.state)) if out.dtype.kind in "fc"]
            likes = [np.broadcast_to(np.zeros((), out.dtype), (self.steps or 0, *out.shape)) for _, out in outs]
            d = self.parts([g[i] for i, _ in outs], likes, rows=True)
        spare = list(map(np.empty_like, gs)) if type(self.sweep) is OneBlock else gs  # of which a sweep makes copies
        self.reversal.begin(d, e, spare, self.inside or self.reversal.buffer(self.blocks.size))
        return gs, sums

    def sums(self) -> list[np.ndarray]:
        """Return zeros for the cotangents of the parameters."""
        return self.zeros(self.lowered.likes[1])

    def zeros(self, likes: Sequence[Any], rows: bool = False) -> list[np.ndarray]:
        return self.parts([None] * len(likes), likes, rows) if likes else []

    def parts(self, gs: list[Any], likes: Sequence[Any], rows: bool = False) -> list[np.ndarray]:
        """Return cotangents as plain arrays of their own, zeros where there are none, with their tangents at the levels below."""
        shapes, dtypes = [getattr(like, "shape", ()) for like in likes], list(map(dtype_of, likes))
        gs = [np.zeros((1,) * len(shape), dtype) if g is None else g for g, shape, dtype in zip(gs, shapes, dtypes, strict=True)]
        for split in self.stepper.all_splits(len(gs), rows) if self.stepper.levels else ():
            gs, dtypes = split_tangents(gs, split), 2 * dtypes
            lanes = () if split.level.directions is None else (split.level.directions,)
            shapes += [(*shape[:rows], *lanes, *shape[rows:]) for shape in shapes]
        arrays = list(map(np.empty, shapes, dtypes))
        for array, g in zip(arrays, gs, strict=True):
            array[...] = g
        return arrays

    def count(self) -> None:
        """Say in the stats what was done in steps: the sweep has counted blocks."""
        stats, size = self.sweep.stats, min(self.blocks.size, self.steps or 1)
        stats.steps, stats.advances, stats.pulls = self.steps, self.segments.made, self.pulled
        stats.reason = self.reason + self.segments.remarks
        if size > 1 and self.pulled:
            stats.peak_states += size - 1
            stats.peak_bytes += (size - 1) * self.stepper.nbytes
        if self.blocks.schedule.records and self.stepper.nbytes:  # a record holds the states of a block
            stats.peak_states = max(stats.peak_states, stats.peak_bytes // self.stepper.nbytes)
