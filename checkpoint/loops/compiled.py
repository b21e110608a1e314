"""A chain of a compiled step: whole segments of steps are made, and blocks of them pulled back, in one compiled call each.

To the sweep a block is one step: its schedule saves states between blocks, and the pull of a block computes the states inside of it again,
into one buffer. So Python is entered once an action, and every schedule and storage works unchanged.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from time import perf_counter
from weakref import proxy

import numpy as np
import optree

from dualad.core.dispatch import dtype_of
from dualad.core.traced import Traced
from dualad.forward.directions import Directions, wrap
from dualad.forward.dual import Dual
from dualad.support.progress import Bar

from ..reverse.tape import Tape
from ..schedules.blocks import blocks_of
from ..storage import Memory
from ..storage.memory import ByReference, itself
from ..support.costs import ADDITION_SECONDS, BLOCK_STATES, COPIED_STATES, LEAF_BYTES, PACKED_BYTES, STATE_BYTES
from ..sweep.stats import fill
from ..sweep.sweep import Sweep
from .aliasing import Aliases
from .budget import overhead_bytes, total
from .eager import too_many
from .entry import ChainEntry, record_chain, unowned
from .probe import Retraced, left_out, probe
from .segments import Reversal, Segments, like_leaves, state_in
from .snapshot import Snapshot
from .spec import Stacked
from .stepper import NotCompiled, Stepper, join_tangents, split_tangents

__all__ = ["NotCompiled", "record_compiled", "run_compiled"]


# --- without derivatives, and in forward mode ---------------------------------------------------------------------------------------


def run_compiled(links, *, steps, until=None, max_steps=None, stats=None, progress=False, check=False):
    """Run the chain of a compiled step on plain values or Duals; raise `NotCompiled` where it has no compiled loops."""
    if steps == 0:
        raise NotCompiled("there are no steps")
    started = perf_counter()
    try:
        stepper, segments = begun(links, steps, until)
    except Retraced:
        stepper, segments = begun(links, steps, until)
    advance = partial(advanced_twice, segments) if check else segments.advance
    x, reached = segments.start, 0
    with Bar(progress, "chain") as bar:
        bar.start(steps)
        segments.told = bar.advance
        if until is None:
            x, reached = advance(0, steps, x)
        else:
            while not segments.ends(reached, x):
                if reached == max_steps:
                    raise too_many(max_steps)
                segments.reserve(2 * reached + 64)
                stop = 2 * reached + 64 if max_steps is None else min(2 * reached + 64, max_steps)
                x, reached = advance(reached, stop, x)
            if not reached:
                raise NotCompiled("it makes no step")
    if stats is not None:
        fill(stats, steps=reached, advances=segments.made, seconds=perf_counter() - started)
    final = join_tangents(like_leaves(x, stepper.kinds), stepper.state_peels)
    outs = join_tangents([out[:reached] for out in segments.outs], stepper.out_peels())
    return (links.tree(final), optree.tree_unflatten(stepper.out_structure, outs)) if links.outputs else links.tree(final)


def begun(links, steps, until):
    """Return what makes the steps, of which one is compared with the plain one where that is due."""
    stepper = Stepper(links, links.state, links.inputs, links.params, until)
    segments = Segments(stepper, steps)
    if stepper.entry.checks.due():
        probe(stepper, segments, steps)
    return stepper, segments


def advanced_twice(segments, first, stop, x):
    """Make steps, and make them again: another result raises."""
    final, reached = segments.advance(first, stop, x)
    told, segments.told = segments.told, None
    again, _ = segments.advance(first, reached, x)
    segments.told = told
    for a, b in zip(final, again, strict=True):
        if a.tobytes() != b.tobytes():
            raise RuntimeError(
                f"chain: the compiled steps {first} to {reached - 1}, made twice from the same state, gave two results, so the gradient "
                f"would be wrong. Without jit, check=True names the first step that differs"
            )
    return final, reached


# --- on a tape --------------------------------------------------------------------------------------------------------------------


def record_compiled(links, tape, **options):
    """Run the chain of a compiled step in a sweep and record it as one operation; raise `NotCompiled` where it has no compiled loops."""
    tape.check()
    try:
        return recorded(links, tape, **options)
    except Retraced:
        return recorded(links, tape, **options)


def recorded(links, tape, *, steps, until, max_steps, schedule, budget, block, storage, stats, progress, check, token):
    """Do what `record_compiled` does; raise `Retraced` where the program of the step was stale."""
    below = links.levels - {tape}
    if any(isinstance(level, Tape) for level in below):
        raise NotCompiled("it is reverse mode over reverse mode")
    if steps == 0:
        raise NotCompiled("there are no steps")
    if type(storage) is Memory and storage.copy is not None:
        raise NotCompiled("its storage has a copy= of its own")
    link = CompiledEntry(links, tape, below, steps, check)
    link.stepper = stepper = Stepper(links, link.state, link.inputs, link.params, until)
    link.segments = segments = Segments(stepper, steps)
    link.compile()
    if budget is not None:
        in_use = BLOCK_STATES if type(storage) is Memory and storage.compress is None else BLOCK_STATES + COPIED_STATES
        budget -= in_use * stepper.nbytes + link.held()
        if budget < stepper.nbytes:
            raise NotCompiled(f"the budget does not hold {in_use + 1} states beside parameters, inputs and outs")
    alone = left_out(stepper, budget)
    if stepper.entry.checks.due() and not alone:
        probe(stepper, segments, steps)
    block = 1 if storage.durable and until is not None else block  # the manifest says how many blocks there were
    durable, resident = storage.durable, type(storage) is Memory and storage.compress is None and not check
    link.blocks = blocks_of(
        steps,
        stepper.nbytes,
        budget,
        stepper.cost * ADDITION_SECONDS,
        schedule=schedule,
        block=block,
        around=0 if budget is None else STATE_BYTES + LEAF_BYTES * len(link.state),
        resident=resident,
    )
    link.keeps_last = resident and until is None and link.blocks.size > 1 and not link.blocks.schedule.records
    if link.keeps_last:
        link.missing = -steps % link.blocks.size
    if not link.blocks.schedule.records and not link.keeps_last:
        link.reversal = None  # its arrays are made again for the reverse sweep
    link.max_steps, stats.reason = max_steps, link.blocks.reason + alone
    if type(storage) is Memory and storage.compress is None:
        small = stepper.nbytes <= PACKED_BYTES  # which are packed
        storage = replace(storage, copy=itself) if small else ByReference(slots=storage.slots, size=stepper.nbytes)
    options = {"storage": storage, "stats": stats, "progress": progress, "check": check, "record": unowned(link.record_block)}
    if durable:
        options |= link.durable_options(tape, token, link.blocks.size, until)
    if until is None:
        options["steps"] = -(-steps // link.blocks.size)
    else:
        options["until"] = BlockEnd(proxy(link))
    link.sweep = Sweep(BlockStep(proxy(link)), segments.start, schedule=link.blocks.schedule, **options)
    tape.sweeps = [*getattr(tape, "sweeps", ()), link.sweep]
    final = link.sweep.forward()
    link.turn(final)
    leaves = join_tangents(like_leaves(final, stepper.state), stepper.state_peels)
    link.last = Snapshot(link.steps, leaves, final=True)
    return record_chain(link, tape, leaves, link.stacked(), lambda outs: optree.tree_unflatten(stepper.out_structure, outs))


class BlockStep:
    """The step of the sweep: a block of steps, and `many` blocks in one."""

    def __init__(self, link):
        self.link = link

    def __call__(self, j, x):
        link = self.link
        if link.keeps_last and j == (link.steps - 1) // link.blocks.size:
            return link.keep(j, x)
        return link.advance(j, j + 1, x)

    def many(self, first, stop, x):
        return self.link.advance(first, stop, x)


class BlockPullback:
    """The pullback of a recorded block, which knows how much it holds."""

    def __init__(self, link, first, stop, x, states):
        self.link, self.first, self.stop, self.x, self.states = link, first, stop, x, states
        self.nbytes = total(x) + total(states)

    def __call__(self, cotangent):
        return self.link.pull_states(self.first, self.stop, self.x, self.states, cotangent)


class BlockEnd:
    """The predicate of the sweep, of blocks; without attributes that a digest would count."""

    __slots__ = ("link",)

    def __init__(self, link):
        self.link = link

    def __call__(self, j, x):
        return self.link.ends(j, x)


class CompiledEntry(ChainEntry):
    """The entry of a chain of a compiled step; `steps` is the number of its steps, None until it is known."""

    def __init__(self, links, tape, below, steps, exact):
        super().__init__(links, tape, below, steps, exact)
        self.steps, self.max_steps, self.pulled, self.reversal = steps, None, 0, None
        self.keeps_last, self.inside = False, None  # of the last block: whether its states are kept, and they
        self.missing = 0  # steps that the first block has less than the others
        self.rows_made = 0

    def compile(self):
        """Compile before the first sweep."""
        self.reversal = Reversal(self.segments, self.stepper.pull_loops(self.active_inputs, self.active, self.nan_safe))

    def held(self):
        """Return the bytes that the chain holds besides states."""
        work, sums = [*self.segments.work, *(array for arrays in self.reversal.work for array in arrays)], self.sums()
        shares = [sums[i] for i in self.reversal.loops.shares]
        outs = sum(int(np.prod(out.shape)) * np.dtype(out.dtype).itemsize for out in self.stepper.base.outputs[1])
        return overhead_bytes(self, outs, self.steps) + total(work) + total(sums) + total(shares)

    # --- the first sweep ----------------------------------------------------------------------------------------------------

    def block(self, j):
        """Return the first step of block j, and the first behind it."""
        stop = (j + 1) * self.blocks.size - self.missing
        return max(stop - self.blocks.size, 0), stop if self.steps is None else min(stop, self.steps)

    def advance(self, first, last, x):
        """Make the steps of blocks first ... last - 1."""
        (start, _), (_, stop) = self.block(first), self.block(last - 1)
        if self.steps is None:
            stop = stop if self.max_steps is None else min(stop, self.max_steps)
            self.segments.reserve(stop)
        x, reached = self.segments.advance(start, stop, x)
        if reached < stop:
            self.steps = reached
        if self.keeps_rows and self.links.outputs and first == self.rows_made:
            self.add_rows(first, self.segments.outs)
            self.rows_made += 1
        return x

    def ends(self, j, x):
        """Return whether the predicate ended the chain before block j."""
        if self.steps is None:
            k, _ = self.block(j)
            k = k if self.max_steps is None else min(k, self.max_steps)
            if self.segments.ends(k, x):
                self.steps = k
            elif k == self.max_steps:
                raise too_many(k)
        return self.steps is not None

    def turn(self, final):
        """Say what is known when the first sweep is done."""
        if self.steps is None:  # its end was found by another process, in blocks of one step
            self.steps = self.sweep.stats.steps
        self.count()

    def stacked(self):
        """Return the outs, as Duals where there are levels below."""
        outs = [out[: self.steps] for out in self.segments.outs]
        return join_tangents(outs, self.stepper.out_peels())

    def record_block(self, j, x):
        """Make the steps of a block, and return the state with a pullback that holds the states inside of the block."""
        first, stop = self.block(j)
        final, states = self.filled(first, stop, x, self.reversal.buffer(stop - first))
        return final, BlockPullback(self, first, stop, x, states)

    def filled(self, first, stop, x, states):
        """Make steps, and return the state behind them with those between them, in the arrays given."""
        states = self.reversal.fill(first, stop, x, states)
        last = state_in(states, stop - first - 1) if stop > first + 1 else x
        return self.segments.advance(stop - 1, stop, last)[0], states

    def keep(self, j, x):
        """Make the steps of the last block, and keep the states inside of it: it is pulled next."""
        first, stop = self.block(j)
        if stop == first + 1:
            return self.segments.advance(first, stop, x)[0]
        x, self.inside = self.filled(first, stop, x, self.reversal.buffer(self.blocks.size))
        return x

    # --- rows that another process goes on with -----------------------------------------------------------------------------

    def take_outs(self, rows):
        self.put_rows(self.segments.outs, rows)
        self.rows_made = len(rows)

    def take_shares(self, rows):
        self.put_rows(self.reversal.e, rows)

    def put_rows(self, arrays, rows):
        for j, parts in rows.items():
            first, stop = self.block(j)
            self.segments.reserve(stop)
            for array, part in zip(arrays, parts, strict=True):
                array[first:stop] = part

    def add_rows(self, j, arrays):
        first, stop = self.block(j)
        self.sweep.add_row(j, [array[first:stop] for array in arrays])

    # --- the reverse sweep --------------------------------------------------------------------------------------------------

    def pull_step(self, j, x, cotangent):
        """Pull the cotangents back through block j."""
        first, stop = self.block(j)
        states, self.inside = self.inside, None
        if states is None:
            states = self.reversal.fill(first, stop, x, self.reversal.states)
        cotangent = self.pull_states(first, stop, x, states, cotangent)
        if self.keeps_rows and self.active_inputs:
            self.add_rows(j, self.reversal.e)
        return cotangent

    def pull_states(self, first, stop, x, states, cotangent):
        """Pull the cotangents back over the state before a block and those inside of it."""
        gs, sums = cotangent
        self.pulled += stop - first
        return self.reversal.pull(first, stop, x, states, gs, sums), sums

    def shares(self, g):
        """Return the nodes of state, parameters and inputs with their shares of the cotangents; of a batch of them, one sweep for each."""
        g = [*g, *[None] * (len(self.state) + len(self.stepper.base.outputs[1]) - len(g))]
        links = self.links
        nodes = [self.state_nodes[i] for i in links.floating]
        nodes += [self.param_nodes[i] for i in self.active] + [self.input_nodes[i] for i in self.active_inputs]
        if any(self.is_foreign(part) for part in g):
            return self.one_by_one().shares(g)
        level = next((part.level for part in g if type(part) is Directions), None)
        if level is None:
            return list(zip(nodes, self.swept(g), strict=True))
        lanes = [self.swept([part.primal[lane] if type(part) is Directions else part for part in g]) for lane in range(level.directions)]
        return [(node, wrap(np.stack(shares), level)) for node, shares in zip(nodes, zip(*lanes, strict=True), strict=True)]

    def is_foreign(self, part):
        """Return whether a cotangent is traced by another level than the state."""
        while isinstance(part, Traced):
            if type(part) is not Directions and (type(part) is not Dual or part.level not in self.stepper.levels):
                return True
            part = part.primal
        return False

    def one_by_one(self):
        """Return the same chain with steps that are not compiled, for cotangents that are themselves traced; its first sweep is made."""
        link = copy(self)
        link.__class__ = ChainEntry
        link.outs, link.aliases = Stacked(self.steps), Aliases(self.links.path)
        link.sweep = Sweep(link.advancing(), self.links.tree(link.state), record=unowned(link.record_step), steps=self.steps)
        leaves = self.links.leaves(self.steps - 1, link.sweep.forward())
        link.aliases.watching = False
        link.before = link.last = Snapshot(self.steps, leaves)
        return link

    def forward(self, links):
        """Run the chain without a tape."""
        try:
            return run_compiled(links, steps=self.steps)
        except NotCompiled:
            return super().forward(links)

    def swept(self, g):
        """Return the shares of one reverse sweep."""
        cotangent = self.begin(g, self.blocks.size)
        try:
            gs, sums = self.sweep.backward(self.pull_step, cotangent, self.reversal.d)
        finally:
            self.count()
        rows, self.reversal = self.reversal.e, None
        self.segments.pool.clear()
        peels, stepper = self.stepper.all_peels, self.stepper
        groups = ([self.state[i] for i in self.links.floating], gs), ([self.params[i] for i in self.active], sums)
        shares = [share for likes, parts in groups for share in join_tangents(stepper.numbers(parts, likes), peels(len(likes)))]
        return shares + join_tangents(rows, peels(len(self.active_inputs), rows=True))

    def begin(self, g, length):
        """Make the arrays of a reverse sweep, with blocks of this length; return those of the cotangents and of the sums."""
        stepper, count = self.stepper, len(self.state)
        outs = stepper.base.outputs[1]
        floating_outs = [i for i, out in enumerate(outs) if out.dtype.kind in "fc"]
        gs = self.parts([g[i] for i in self.links.floating], [self.state[i] for i in self.links.floating])
        likes = [np.broadcast_to(np.zeros((), outs[i].dtype), (self.steps or 0, *outs[i].shape)) for i in floating_outs]
        d = self.parts([g[count + i] for i in floating_outs], likes, rows=True)
        e = self.parts([None] * len(self.active_inputs), [self.inputs[i] for i in self.active_inputs], rows=True)
        sums = self.sums()
        if self.reversal is None:
            self.compile()
        self.reversal.begin(d, e, gs, sums, self.inside or self.reversal.buffer(length))
        return gs, sums

    def sums(self):
        """Return zeros for the cotangents of the parameters."""
        return self.parts([None] * len(self.active), [self.params[i] for i in self.active])

    def parts(self, gs, likes, rows=False):
        """Return cotangents as plain arrays of their own, zeros where there are none, with their tangents at the levels below."""
        shapes, dtypes = [np.shape(like) for like in likes], [dtype_of(like) for like in likes]
        gs = [np.zeros((1,) * len(shape), dtype) if g is None else g for g, shape, dtype in zip(gs, shapes, dtypes, strict=True)]
        for peel in self.stepper.all_peels(len(gs), rows):
            gs, dtypes = split_tangents(gs, peel), 2 * dtypes
            if peel.level.directions is not None:
                shapes += [(*shape[:rows], peel.level.directions, *shape[rows:]) for shape in shapes]
            else:
                shapes += shapes
        return [own_array(g, shape, dtype) for g, shape, dtype in zip(gs, shapes, dtypes, strict=True)]

    def count(self):
        """Say in the stats what was done in steps: the sweep has counted blocks."""
        stats, size = self.sweep.stats, min(self.blocks.size, self.steps or 1)
        stats.steps, stats.advances, stats.pulls = self.steps, self.segments.made, self.pulled
        if size > 1 and self.pulled:
            stats.peak_states += size - 1
            stats.peak_bytes += (size - 1) * self.stepper.nbytes
        if self.blocks.schedule.records and self.stepper.nbytes:  # a record holds the states of a block
            stats.peak_states = max(stats.peak_states, stats.peak_bytes // self.stepper.nbytes)


def own_array(x, shape, dtype):
    """Return a new array in the order of C that holds what is broadcast to a shape."""
    array = np.empty(shape, dtype)
    array[...] = x
    return array
