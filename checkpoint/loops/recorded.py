"""A chain on the tape whose steps are recorded one by one, each on a small tape of its own."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterable, Sequence
from operator import is_
from time import sleep
from typing import Any, TypeAlias
from weakref import ref

import numpy as np
import optree

from dualad.core.conversions import STANDING, lift
from dualad.core.traced import Traced
from dualad.forward.dual import Dual
from dualad.forward.seeding import pack_leaf
from dualad.jit.jit import Jit
from dualad.support.measured import measure_peak

from ..reverse.tape import Tape, Var, owner_of
from ..schedules import Schedule
from ..storage import Storage
from ..storage.states import copy_state, has_arrays, nbytes
from ..support.costs import OVERHEAD_BYTES
from ..sweep.player import Player
from ..sweep.stats import Stats
from .eager import on_primals
from .entry import ChainEntry, Lowered, planned, record_chain, unowned
from .results import Aliases, Rows, Snapshot, Stacked, was_written
from .spec import BY_ZEROS, Loop, StepSpec, one_level_down, row_of

Recorded: TypeAlias = tuple[Tape, Sequence[int], list[Any]]  # the tape of a step, the nodes of its arguments, and of its results
Cotangent: TypeAlias = tuple[list[Any], list[Any]]  # of the floating leaves of the state, and sums for the active parameters


class StepTape(Tape):
    """The tape of one step of a chain, closed when the step is recorded."""

    __slots__ = ("__weakref__",)
    outlived = (
        "chain: a value that a step computed is used outside of the step, where it has no derivative: it was kept in a list, an array, "
        "an attribute or a global. Let the step return it: as an out (outputs=True, and chain returns all of them stacked), or in its state"
    )


def record(spec: StepSpec, tape: Tape, loop: Loop, reason: str, run: Callable[[StepSpec, Loop], Any]) -> Any:
    """Run the chain in a sweep and record it as one operation on the tape; `reason` says why its steps are not compiled."""
    compiled, steps, storage, stats = isinstance(spec.source, Jit), loop.steps, loop.storage, loop.stats or Stats()
    exact = loop.check and not compiled  # whose recorded program may sum in another order
    entry = EagerEntry(Lowered(spec, tape, run), steps, exact, -1 if compiled or steps is None else steps - 1, storage.lossy)
    schedule = BY_ZEROS if loop.schedule is None else loop.schedule
    if loop.memory is not None:
        tried = entry.tried_bytes(storage.durable) if steps != 0 else (0, 0)  # estimated, if another process is to find the same plan
        schedule, why = planned(entry.lowered, steps, loop.memory, *tried)
        reason = f"{reason}; {why}" if reason else why
    stats.reason = reason
    options: dict[str, Any] = {"max_steps": loop.max_steps, "progress": loop.progress, "check": loop.check}
    if storage.durable:
        options |= entry.durable_options(tape, loop.token)
    if loop.until is not None:
        options["until"] = on_primals(loop.until)
    entry.sweep = sweep = entry.new_sweep(schedule, storage, stats, **options)
    tape.sweeps = [*getattr(tape, "sweeps", ()), sweep]
    return record_chain(entry, tape, entry.first_sweep(), entry.outs.arrays() if spec.outputs else [], entry.outs.tree)


class EagerEntry(ChainEntry):
    """The entry of a chain whose steps are recorded one by one.
    `traced_step` is evaluated on traced values in the first sweep: what it leaves elsewhere than in its results raises when it is used."""

    def __init__(self, lowered: Lowered, steps: int | None, exact: bool, traced_step: int = -1, lossy: bool = False) -> None:
        self.lowered, self.spec = lowered, lowered.spec
        self.flat, self.call, self.steps = self.spec.flat_step(), self.spec.calls(lowered.arguments, lowered.inputs), steps
        self.exact, self.traced_step, self.tried, self.first = exact, traced_step, False, True
        self.path = None if lossy else self.spec.path  # saved states that are rounded are not compared
        self.standing = False  # whether steps return what stands for an array, as arrays that adapted code fills
        self.leaks = False  # whether a step keeps a value elsewhere than in its results: in the first sweep all are then traced
        self.outs = Stacked(steps)
        self.out_cotangents: list[Any] = []
        self.rows: list[Rows] = []
        self.before = self.last = UNKNOWN  # the state that was met last, and x_N
        self.aliases = Aliases(self.spec.path, lowered.state, (*lowered.params, *lowered.inputs))

    # --- the first sweep ----------------------------------------------------------------------------------------------------

    def new_sweep(self, schedule: Schedule, storage: Storage, stats: Stats, **options: Any) -> Player:
        record = unowned(self.record_step) if schedule.records else None
        advance = self.advancing()
        return Player(advance, self.spec.tree(self.lowered.state), self.steps, schedule, storage, stats, record=record, **options)

    def first_sweep(self) -> list[Any]:
        """Run the chain; return the leaves of x_N."""
        spec, lowered = self.spec, self.lowered
        final = self.sweep.forward()
        self.first = self.aliases.watching = False
        self.check_params(lowered.arguments, lowered.params)
        self.steps = steps = self.sweep.stats.steps
        leaves = spec.final_leaves(steps, final, lowered.arguments, lowered.inputs) if steps else lowered.state
        spec.check_closure(leaves, lowered.below)
        self.last = Snapshot(steps, leaves, self.exact, final=True)
        return leaves

    def advancing(self) -> Callable[[int, Any], Any]:
        """Return the function that evaluates step k on values one level down, which does not keep this entry (see `unowned`)."""
        step, arguments, owner, last = self.spec.step, self.lowered.arguments, ref(self), self.traced_step
        direct, watched = self.spec.direct, True

        def advance(k: int, x: Any) -> Any:
            nonlocal watched
            try:
                if not watched and k != last:
                    return step(k, x, *arguments)
                entry: Any = owner()
                x = entry.advance_watched(k, x)
                watched = not direct or entry.aliases.watching or entry.standing or (entry.first and entry.leaks)
                return x
            except Exception as error:
                owner().explain(k, x, error)  # type: ignore[union-attr]  # a chain that is run is alive
                raise

        return advance

    def advance_watched(self, k: int, x: Any) -> Any:
        """Evaluate step k; in the first sweep also try step 0, keep what the steps put out, and see to it that no two leaves are one."""
        spec, lowered, aliases = self.spec, self.lowered, self.aliases
        if not (k or self.tried) and self.first:
            self.try_first(x)
        if k == self.traced_step or (self.first and self.leaks):
            return self.make_traced(k, x)[0]
        handed: list[Any] = []
        if aliases.watching and aliases.before(k):
            handed = aliases.guard(k, spec.flatten(x))
            x = spec.tree(handed)
        result: Any = self.call(k, x)
        self.standing = self.standing or not STANDING.keys().isdisjoint(map(type, optree.tree_leaves(result)))
        x, out = optree.tree_map(pack_leaf, result) if self.standing else result
        if handed:
            aliases.check(k, handed)
        if spec.outputs and k == self.outs.length:
            spec.check_closure([pack_leaf(leaf) for leaf in optree.tree_leaves(out)], lowered.below)
            self.put_out(k, out)
        if not k and self.first:
            leaves = spec.checked(0, x)
            spec.check_closure(leaves, lowered.below)
            self.before.compare(1, leaves, self.path)
            aliases.watching = aliases.watching and (has_arrays(x) or any(isinstance(leaf, Traced) for leaf in leaves))
        if aliases.watching and (leaves := spec.flatten(x)) is not None:
            aliases.note(k, leaves, (*lowered.params, *lowered.inputs), handed)
        return x

    def explain(self, k: int, x: Any, error: Exception) -> None:
        """Raise what is behind an exception in step k, if something is."""
        if type(error) is ValueError and (written := self.written(k, x)) is not None:
            raise written from error
        self.spec.explain(k, x, self.lowered.arguments, self.lowered.inputs, error)

    def written(self, k: int, x: Any) -> ValueError | None:
        """Return the error of step k if it writes into an array that it is handed read-only: handed a copy of that, it does not fail.
        NumPy says so in a plain ValueError; what is derived of that, as `LinAlgError`, costs no further steps."""
        spec, lowered, aliases, groups = self.spec, self.lowered, self.aliases, self.aliases.before(k)

        def fails(guards: bool, copies: bool) -> bool:
            params, inputs = (list(map(writeable_copy, leaves)) if copies else leaves for leaves in (lowered.params, lowered.inputs))
            try:
                leaves: Any = spec.flatten(copy_state(x))
                spec.calls(spec.arguments(params), inputs)(k, spec.tree(aliases.guard(k, leaves) if guards else leaves))
            except Exception:
                return True
            return False

        nothing = not (groups or lowered.params or lowered.inputs)
        if nothing or fails(guards=False, copies=True) or not fails(guards=True, copies=False):
            return None
        return aliases.written(k, groups) if groups and fails(guards=True, copies=True) else changed_arguments(f"step {k}")

    def try_first(self, x: Any) -> None:
        tape = ref(self.try_step(x)[0][0])
        self.leaks, self.tried = tape() is not None and is_held(tape), True

    def try_step(self, x: Any) -> tuple[Recorded, Any]:
        """Record step 0 before the first sweep; return the record and the out. What cannot be differentiated fails before a long run,
        and what a step leaves elsewhere than in its results is a traced value of a closed level, which raises when it is used."""
        with np.errstate(all="ignore"):  # the step itself will warn
            recorded, _, final, out = self.record(0, copy_state(x), first=True)
        self.before = Snapshot(1, self.values(final, recorded[0]), self.exact)
        return recorded, out

    def tried_bytes(self, repeatable: bool) -> tuple[int, int]:
        """Return the bytes that a trial of step 0 and of its pull takes at most, and those of what the step puts out.
        A measure differs by a few bytes from process to process: `repeatable` ones are estimated from what is on the tape instead."""
        lowered = self.lowered
        x = copy_state(self.spec.tree(lowered.state))
        gs = [np.ones_like(leaf)[()] for leaf in lowered.likes[0]]

        def trial() -> tuple[int, int]:
            recorded, out = self.try_step(x)
            outs = self.values(optree.tree_leaves(out), recorded[0])
            estimate = 3 * nbytes(lowered.state) + 2 * held_bytes(recorded) if repeatable else 0
            with np.errstate(all="ignore"):
                self.pull_record(0, recorded, (gs, [None] * len(lowered.active)))
            tape = ref(recorded[0])
            del recorded, out
            self.leaks = is_held(tape)
            return sum(map(nbytes, outs)), estimate

        try:
            if not repeatable and (nbytes(lowered.state) <= OVERHEAD_BYTES or isinstance(self.spec.source, Jit)):
                trial()  # what is made once for all calls, such as the code of a rule, or of the step, would count
            (outs, estimate), taken = (trial(), 0) if repeatable else measure_peak(trial)
        except Exception as error:
            self.explain(0, x, error)
            raise
        self.tried = True
        return taken or estimate, outs

    def check_params(self, arguments: Any, params: list[Any]) -> None:
        """Raise where steps have changed the parameters or inputs that they were given, which both sweeps must see."""
        if not arguments and not self.lowered.inputs:
            return
        leaves, structure = optree.tree_flatten(arguments)
        changed = structure != self.spec.params_structure or not all(map(is_, leaves, params))
        for leaf in (*leaves, *self.lowered.inputs):
            changed = changed or (isinstance(leaf, Traced) and was_written(leaf))
        if changed:
            raise changed_arguments("a step")

    # --- one step, recorded -------------------------------------------------------------------------------------------------

    def record(self, k: int, x: Any, first: bool = False) -> tuple[Recorded, list[Any], list[Any], Any]:
        """Evaluate step k on a tape of its own; return what was recorded, the leaves of x_k and of x_{k+1}, and the out."""
        spec, lowered, results = self.spec, self.lowered, list[Any]()
        leaves = [x] if spec.is_number and type(x) is float else spec.flatten(x)
        state = leaves.copy() if STANDING.keys().isdisjoint(map(type, leaves)) else lift(leaves)
        params = lowered.params.copy() if lowered.active else lowered.params
        row = row_of(lowered.inputs, k) if spec.has_inputs else []
        variables = (state, spec.floating), (params, lowered.active), (row, lowered.active_inputs)
        with StepTape(lowered.nan_safe, lowered.weak, *variables) as tape:
            nodes = range(len(tape.entries))
            arguments = spec.arguments(params) if lowered.active else lowered.arguments
            handed = state.copy() if first and self.aliases.watching and self.aliases.before(k) else []
            final, out = self.flat(k, state, row, arguments)
            for i in spec.floating:
                leaf = final[i]
                if type(leaf) is Var and leaf.level is tape and type(leaf.primal) is float:  # `node_of` without its questions
                    results.append(leaf.node)
                else:
                    results.append(self.node_of(leaf, tape))
            if spec.outputs:
                out = optree.tree_map(pack_leaf, out)
                results += [self.node_of(leaf, tape) for leaf in optree.tree_leaves(out)]
        if first:
            self.check_params(arguments, params)
            if handed:
                self.aliases.check(k, handed)
            if self.aliases.watching:
                self.aliases.note(k, final, (*params, *row), handed)
        return (tape, nodes, results), leaves, final, out

    def node_of(self, leaf: Any, tape: Tape) -> Any:
        """Return the node of a result, None where it is constant; a value of a foreign level raises."""
        if type(leaf) is Var and leaf.level is tape:
            if leaf.alias is not None:
                leaf._refresh()
            if type(leaf.primal) is not float and isinstance(leaf.primal, Traced):
                self.spec.check_closure([leaf.primal], self.lowered.below)
            return leaf.node
        if isinstance(leaf, Traced):
            self.spec.check_closure([leaf], self.lowered.below)
        return None

    def values(self, leaves: Iterable[Any], tape: Tape) -> list[Any]:
        """Return results of a record one level down; a value of a foreign level raises."""
        values = one_level_down(leaves, tape)[0]
        self.spec.check_closure(values, self.lowered.below)
        return values

    def record_step(self, k: int, x: Any) -> tuple[Any, Any]:
        """Evaluate step k as `advance` does, and return x_{k+1} with the pullback of the step, which knows how much it holds."""
        try:
            final, recorded, leaves = self.make_traced(k, x)
        except Exception as error:
            self.explain(k, x, error)
            raise
        before = Snapshot(k, leaves, self.exact)

        def pullback(cotangent: Cotangent) -> Cotangent:
            self.before = before
            return self.pull_record(k, recorded, cotangent)

        pullback.nbytes = held_bytes(recorded)  # type: ignore[attr-defined]
        return final, pullback

    def make_traced(self, k: int, x: Any) -> tuple[Any, Recorded, list[Any]]:
        """Evaluate step k on traced values; return x_{k+1}, what was recorded, and the leaves of x_k."""
        spec = self.spec
        if not (k or self.tried) and self.first:
            self.try_first(x)
        recorded, leaves, final, out = self.record(k, x, first=True)
        state = spec.tree(self.values(final, recorded[0]))
        self.before.compare(k + 1, final, self.path)
        if spec.outputs and k == self.outs.length:
            parts, structure = optree.tree_flatten(out)
            self.put_out(k, optree.tree_unflatten(structure, self.values(parts, recorded[0])))
        return copy_state(state), recorded, leaves

    # --- the reverse sweep --------------------------------------------------------------------------------------------------

    def shares(self, g: list[Any]) -> list[Any]:
        """Return the cotangents of state, parameters and inputs; see `ChainEntry`."""
        lowered, count, outs = self.lowered, len(self.spec.state), len(self.outs.columns or ())
        g = [*g, *[None] * (count - len(g))]
        self.out_cotangents = [*g[count:], *[None] * (outs - len(g[count:]))] if len(g) > count else []
        self.rows = list(map(Rows, lowered.likes[2]))
        self.before = self.last
        with np.errstate(all="ignore"):  # once, not at every step; the steps have warned in the first sweep
            cotangent = [g[i] for i in self.spec.floating], [None] * len(lowered.active)
            gs, sums = self.sweep.backward(self.pull_step, cotangent, self.out_cotangents)
        shares = [*gs, *sums, *[rows.array() for rows in self.rows]]
        self.out_cotangents, self.rows = [], []
        return shares

    def pull_step(self, k: int, x: Any, cotangent: Cotangent) -> Cotangent:
        """Pull the cotangent of the state back through step k, and add the parameters' shares to their sums."""
        recorded, leaves, final, out = self.record(k, x)
        self.before.compare(k + 1, final, self.path)
        self.before = Snapshot(k, leaves, self.exact)
        del final, out  # x_{k+1} is not needed
        pulled = self.pull_record(k, recorded, cotangent)
        tape = ref(recorded[0])
        del recorded
        if tape() is not None and not self.leaks and is_held(tape) and stays_held(tape):
            self.leaks = True
            warnings.warn(
                f"chain: step {k}, but not step 0, stores a traced value outside of its results. Wherever that is used, its derivative "
                "is missing: return it, as an out (outputs=True) or in the state, or keep dualad.primal(x) to look at it",
                RuntimeWarning,
                stacklevel=2,
            )
        return pulled

    def pull_record(self, k: int, recorded: Recorded, cotangent: Cotangent) -> Cotangent:
        """Pull the cotangent of the state back through a recorded step, and add the parameters' shares to their sums."""
        (gs, sums), (tape, nodes, results) = cotangent, recorded
        if self.out_cotangents:
            gs = [*gs, *[None if g is None else g[k] for g in self.out_cotangents]]
        seeds = []
        for node, g in zip(results, gs, strict=False):  # without cotangents of the outs, there are more results
            if node is not None and g is not None:
                seeds.append((node, g))
        pulled = tape.sweep_back(seeds, nodes)
        n, m = len(self.spec.floating), len(sums)
        for j, share in enumerate(pulled[n : n + m]):
            if share is not None:
                now = sums[j]
                sums[j] = now + share if type(now) is float else added(now, share)
        if self.rows:
            for rows, share in zip(self.rows, pulled[n + m :], strict=True):
                rows.put(k, share)
            if self.keeps_rows:
                self.sweep.add_row(k, pulled[n + m :])
        return pulled[:n], sums

    # --- rows of the outs, and of the gradient by inputs ----------------------------------------------------------------------

    def put_out(self, k: int, out: Any) -> None:
        self.outs.add(k, out)
        if self.keeps_rows:
            self.sweep.add_row(k, [column[k] for column in self.outs.columns or ()])

    def take_outs(self, rows: dict[int, list[Any]]) -> None:
        structure = self.outs.structure  # of the first step, which is made again before
        self.outs = Stacked(self.outs.count)
        self.outs.structure = structure
        for k, leaves in rows.items():
            self.outs.put(k, leaves)

    def take_shares(self, rows: dict[int, list[Any]]) -> None:
        for k, shares in rows.items():
            for column, share in zip(self.rows, shares, strict=True):
                column.put(k, share)


def added(total: Any, share: Any) -> Any:
    """Return a sum over the steps; the total is this sweep's own and takes the share in place."""
    if total is None:
        return share.copy() if type(share) is np.ndarray else share
    if type(total) is np.ndarray is type(share):
        total += share
        return total
    return total + share


UNKNOWN = Snapshot(-1, ())


def is_held(tape: ref[Tape]) -> bool:
    """Return whether anything refers to a tape, as each value that was computed on it does."""
    if tape() is not None:
        gc.collect(1)  # the step may have left cycles, young ones for the most part
    return tape() is not None


def stays_held(tape: ref[Tape]) -> bool:
    """Return `is_held` after some time: a profiler or debugger in another thread holds frames, and their locals, for moments."""
    for pause in (0.0, 0.02, 0.2):
        sleep(pause)
        gc.collect()
        if tape() is None:
            return False
    return True


def writeable_copy(leaf: Any) -> Any:
    return leaf.copy() if issubclass(type(leaf), np.ndarray) and not leaf.flags.writeable else leaf


def changed_arguments(who: str) -> ValueError:
    return ValueError(
        f"chain: {who} changed its parameters or inputs, which both sweeps must see as they were given: copy in the step what it "
        f"changes, or put it into the state"
    )


def held_bytes(recorded: Recorded) -> int:
    """Return the bytes of the arrays on the tape of a step, each counted once, and of its numbers."""
    arrays, numbers = {}, 0
    tape, _, results = recorded
    held: list[Any] = []
    for entry in tape.needed([node for node in results if node is not None]):
        if type(entry) in (tuple, list):
            held += entry[1::2] if type(entry) is tuple else entry  # without nodes
        else:
            held += [getattr(entry, "args", ()), getattr(entry, "ans", None)]
    while held:
        value = held.pop()
        if isinstance(value, tuple | list):
            held.extend(value)
        elif isinstance(value, Dual):
            held += [value.primal, value.tangent]
        elif issubclass(type(value), np.ndarray):
            owner = owner_of(value)
            arrays[id(owner)] = owner
        else:
            numbers += issubclass(type(value), float | np.generic)
    return 8 * numbers + sum(map(nbytes, arrays.values()))
