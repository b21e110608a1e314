"""The programs and loops of a chain's compiled step, for values that may be Duals: their tangents are leaves of their own."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from functools import lru_cache
from itertools import islice, pairwise
from threading import get_ident
from typing import NamedTuple

import numpy as np
import optree

from dualad.codegen.chain_kernels import emit_advance, emit_pull
from dualad.core.dispatch import dtype_of
from dualad.core.levels import Level
from dualad.core.traced import Traced
from dualad.forward.dual import Dual, make_dual
from dualad.graph.handled import Handled
from dualad.graph.program import Value, kind_of, role_of
from dualad.graph.split import Routine, inexact, keeps, pulled, pushed, tangent_of
from dualad.jit.arguments import Call
from dualad.jit.jit import Jit, jit
from dualad.jit.verify import EVALUATING
from dualad.jit.watch import Watch
from dualad.loops.forms import NoLoopForm

from ..support.checks import truth
from ..support.costs import KEPT_STEPS
from .leaves import levels_of, parts_in
from .segments import like_leaves

__all__ = ["NotCompiled", "Stepper"]


class NotCompiled(Exception):
    """A chain cannot run in compiled segments; says why."""


class TangentSplit(NamedTuple):
    """A level of forward mode that was taken off leaves: how many there were, which have tangents, and whether they are rows."""

    level: Level
    count: int
    positions: list[int]
    rows: bool


class Stepper:
    """What is compiled of a chain's step, for these leaves of its state, inputs and parameters.

    Attributes
    ----------
    state, inputs, params : plain leaves; Duals are their values and tangents.
    nbytes : of a state.
    out_structure : the structure of an out.
    """

    def __init__(self, links, state, inputs, params, until=None):
        self.links, self.name = links, links.source.__name__
        self.levels = levels_without_tapes([*state, *inputs, *params])
        self.trace(state, inputs, params)
        self.predicate, self.given = until, state
        self.until = None if until is None else self.traced_predicate(until, state)
        self.key = len(state), len(inputs), len(params), *((level.directions, level.nan_safe) for level in self.levels)
        self.state, self.state_peels = self.peeled(state, all_floating=True)
        self.inputs, self.input_peels = self.peeled(inputs, rows=True)
        self.params, self.param_peels = self.peeled(params)
        self.nbytes = sum(np.asarray(leaf).nbytes for leaf in self.state)
        self.active = tuple(tuple(map(tuple, (a.positions, b.positions))) for a, b in zip(self.input_peels, self.param_peels, strict=True))

    # --- programs -----------------------------------------------------------------------------------------------------------

    def trace(self, state, inputs, params):
        """Trace the step; raise where it is not one that keeps its state."""
        links, step = self.links, self.links.source
        if EVALUATING and get_ident() in EVALUATING:
            raise NotCompiled("they are compared with those of the plain step")
        if step.backend == "numpy":
            raise NotCompiled("the step is compiled by NumPy's backend")
        numbers = float | int | complex | np.ndarray | np.generic | Traced
        if not all(issubclass(type(leaf), numbers) and type(leaf) is not bool for leaf in (*state, *inputs, *params)):
            raise NotCompiled("there are leaves that are neither numbers nor arrays")
        rows = [stand_in(leaf)[0] for leaf in inputs]
        given = (optree.tree_unflatten(links.inputs_structure, rows),) if links.given else ()
        tree = links.tree([canonical_stand_in(leaf) for leaf in state])
        self.call = call = Call(step, (0, tree, *given, *links.arguments(list(map(stand_in, params)))), {})
        try:
            self.entry = step.entry(call)
        except Handled as error:
            raise NotCompiled(str(error)) from error
        except TypeError:
            links.explain(0, tree, links.arguments(params), inputs)
            raise
        key = "step", links.state_structure, links.outputs, len(rows), len(params)
        self.base, self.out_structure = kept(self.entry.compiled, key, lambda: self.grouped(len(rows), len(params)))

    def grouped(self, rows, params):
        """Return the program of a step with its inputs and outputs in groups, and the structure of an out."""
        links, program, out = self.links, self.entry.compiled.program, None
        count = len(links.state)
        if len(program.inputs) != 1 + count + rows + params:
            raise NotCompiled("some arguments of the step are static")
        made = optree.tree_unflatten(self.entry.structure, list(program.outputs))
        if links.outputs:
            if not isinstance(made, tuple) or len(made) != 2:
                raise NotCompiled("the step returns no pair of state and out")
            made, out = made
        if optree.tree_structure(made) != links.state_structure or not all(
            map(keeps, program.inputs[1 : 1 + count], program.outputs[:count])
        ):
            raise NotCompiled("the step changes the structure, a shape or a dtype of its state")
        inputs = program.inputs
        ends = [0, 1, 1 + count, 1 + count + rows, len(inputs)]
        outputs = list(map(kind_of, program.outputs))
        groups = [inputs[a:b] for a, b in pairwise(ends)]
        return Routine(program, groups, [outputs[:count], outputs[count:]], []), optree.tree_structure(out)

    def example(self):
        """Return `base` with this call's arguments, which nothing keeps."""
        given = iter(self.call.examples())
        return self.base._replace(examples=[list(islice(given, len(group))) for group in self.base.inputs])

    def traced_predicate(self, until, state):
        """Return the program of the predicate, which sees plain values; where it has none, steps are made one by one."""
        try:
            jitted = predicate(until)
            watch = Watch(jitted.f)
            entry = jitted.entry(Call(jitted, (0, self.links.tree([canonical_stand_in(leaf) for leaf in state])), {}))
        except Exception as error:
            raise NotCompiled(f"until cannot be traced: {error}") from error
        program = entry.compiled.program
        out = kind_of(program.outputs[0]) if len(program.outputs) == 1 else None
        if out is None or out.shape or out.dtype.kind not in "bi" or len(program.inputs) != 1 + len(state):
            raise NotCompiled("until cannot be traced: it returns neither True nor False")
        if not isinstance(program.outputs[0], Value) or not watch.fresh():
            raise NotCompiled("until cannot be traced: its answer is no function of k and the state")
        return Routine(program, [program.inputs[:1], program.inputs[1:]], [[out]], [])

    def asked(self, k, arrays):
        """Return what the predicate itself says of k and the state."""
        return truth(self.predicate(k, self.links.tree(self.plain_state(k, arrays))), where="chain", k=k)

    def plain_state(self, k, arrays):
        """Return the values of the leaves of x_k, of their own."""
        words = [role_of(stand_in(leaf)) for leaf in self.given] if not k else [out.kind for out in self.base.outputs[0]]
        return like_leaves(map(np.copy, arrays[: len(words)]), words)

    def plain_leaves(self, k, arrays):
        """Return the leaves of the arguments of step k, without derivatives."""
        rows = [stand_in(leaf)[k] for leaf in self.links.inputs]
        return [k, *self.plain_state(k, arrays), *rows, *map(stand_in, self.links.params)]

    @property
    def outs(self):
        """What the outs are, as plain arrays."""
        outs = self.base.outputs[1]
        for level, _, positions, _ in self.out_peels():
            outs = [*outs, *(tangent_of(outs[i], level.directions) for i in positions)]
        return outs

    @property
    def threads(self):
        """Over how many threads large loops are split, None of loops that are not cut into blocks."""
        return self.entry.compiled.threads

    @property
    def cost(self):
        """About how many additions a step takes."""
        return self.advance_loops().units[0].source.additions

    def step(self):
        """Return the routine of a step of the plain leaves."""
        routine = self.example()
        for k, level in enumerate(self.levels):
            outs = [[], inexact(routine.inputs[1]), self.input_peels[k].positions, self.param_peels[k].positions]
            routine = pushed(routine, outs, level.directions, level.nan_safe)
        return routine

    def pull(self, rows, params, nan_safe):
        """Return the routine of the pullback of a step, to these inputs and parameters."""
        routine = pulled(self.example(), rows, params, nan_safe)
        for k, level in enumerate(self.levels):
            gs = [list(range(len(routine.inputs[group]))) for group in (4, 5)]
            active = [[], inexact(routine.inputs[1]), self.input_peels[k].positions, self.param_peels[k].positions, *gs]
            routine = pushed(routine, active, level.directions, level.nan_safe)
        return routine

    # --- loops --------------------------------------------------------------------------------------------------------------

    def advance_loops(self):
        """Return the loops that make steps."""
        asked = None if self.until is None else id(self.until.program)
        return self.made(("advance", asked, *self.key, self.active), lambda: emit_advance(self.step(), self.until, self.threads))

    def pull_loops(self, rows, params, nan_safe):
        """Return the loops that pull cotangents back."""
        key = "pull", tuple(rows), tuple(params), nan_safe, *self.key, self.active
        return self.made(key, lambda: emit_pull(self.step(), self.pull(rows, params, nan_safe), self.threads))

    def made(self, key, make):
        """Return loops that were made before for this program, or are now."""

        def emitted():
            try:
                return make(), self.until
            except NoLoopForm as reason:
                return reason, None

        loops, _ = kept(self.entry.compiled, key, emitted)
        if isinstance(loops, NoLoopForm):
            raise NotCompiled(str(loops))
        return loops

    def compile(self, loops):
        """Compile loops before the first sweep, so that what cannot be compiled shows before a long run."""
        if loops.compiled:
            return
        try:
            loops.compile()
        except Exception as error:
            warnings.warn(f"chain: numba failed on {self.name}, whose steps are made one by one instead: {error!r}", stacklevel=6)
            known = self.entry.compiled.of_chains
            known.update({key: (NoLoopForm("numba failed"), None) for key in known if known[key][0] is loops})
            raise NotCompiled("numba failed") from error

    # --- leaves -------------------------------------------------------------------------------------------------------------

    @property
    def kinds(self):
        """What the leaves of a state that a step returns are to Python."""
        return self.words([out.kind for out in self.base.outputs[0]], self.state_peels)

    def numbers(self, parts, likes):
        """Return arrays as the numbers that stand for these leaves, and their tangents."""
        return like_leaves(parts, self.words([role_of(stand_in(leaf)) for leaf in likes], self.all_peels(len(likes))))

    def words(self, words, peels):
        for level, _, positions, _ in peels:
            words = [*words, *(words[i] if level.directions is None else "array" for i in positions)]
        return words

    def peeled(self, leaves, all_floating=False, rows=False):
        """Return the plain leaves of Duals, and what was taken off: the tangents there are, or those of all floating leaves."""
        peels = []
        for level in self.levels:
            moving = [(all_floating and dtype_of(leaf).kind in "fc") or has_tangent(leaf, level) for leaf in leaves]
            peels.append(TangentSplit(level, len(leaves), [i for i, asked in enumerate(moving) if asked], rows))
            leaves = split_tangents(leaves, peels[-1])
        return leaves, peels

    def all_peels(self, count, rows=False):
        """Return the peels of leaves that all have tangents."""
        return [TangentSplit(level, count << k, list(range(count << k)), rows) for k, level in enumerate(self.levels)]

    def out_peels(self):
        """Return the peels of the outs."""
        peels, outs = [], self.base.outputs[1]
        for level in self.levels:
            peels.append(TangentSplit(level, len(outs), inexact(outs), True))
            outs = [*outs, *(outs[i] for i in peels[-1].positions)]
        return peels


def kept(step, key, make):
    """Return what was made of a compiled step before, or is now; what was not used for longest is forgotten."""
    known = vars(step).setdefault("of_chains", OrderedDict())
    known[key] = made = known.pop(key, None) or make()
    while len(known) > KEPT_STEPS:
        known.popitem(last=False)
    return made


@lru_cache(maxsize=KEPT_STEPS)
def predicate(until):
    """Return the predicate as a function that can be traced, the same one for the same predicate."""
    return until if isinstance(until, Jit) else jit(until)


def levels_without_tapes(leaves):
    """Return the levels of forward mode of leaves, the highest first; of another kind they raise."""
    if any(type(part) is not Dual for leaf in leaves if isinstance(leaf, Traced) for part in parts_in(leaf)):
        raise NotCompiled("it is traced or recorded by another derivative inside of a tangent")
    return sorted(levels_of(leaves), key=lambda level: -level.id)


def has_tangent(leaf, level):
    return type(leaf) is Dual and leaf.level is level and leaf._refresh().tangent is not None


def split_tangents(leaves, peel):
    """Return the values of leaves at a level, and then the tangents of some of them."""
    level, _, positions, rows = peel
    parts = [leaf._refresh().primal if type(leaf) is Dual and leaf.level is level else leaf for leaf in leaves]
    tangents = []
    for i in positions:
        t = leaves[i].tangent if type(leaves[i]) is Dual and leaves[i].level is level else None
        if t is None:
            lanes = () if level.directions is None else (level.directions,)
            t = np.zeros((*lanes, *np.shape(parts[i])), dtype_of(parts[i]))[()]
        if dtype_of(t) != dtype_of(parts[i]):
            if dtype_of(t).kind == "c":
                raise NotCompiled("a real leaf has a complex tangent")
            t = np.asarray(t, dtype_of(parts[i])) if not isinstance(t, Traced) else t.astype(dtype_of(parts[i]))
        if rows and level.directions is not None:
            t = np.moveaxis(t, 0, 1)
        tangents.append(t)
    return [*parts, *tangents]


def join_tangents(parts, peels):
    """Return leaves as Duals again."""
    parts = list(parts)
    for level, count, positions, rows in reversed(peels):
        tangents = parts[count:]
        del parts[count:]
        for i, t in zip(positions, tangents, strict=True):
            if rows and level.directions is not None:
                t = np.moveaxis(t, 1, 0)
            value = parts[i]
            parts[i] = make_dual(number(value), number(t), level)
    return parts


def number(value):
    return value.item() if issubclass(type(value), np.generic) else value


def stand_in(leaf):
    """Return a plain value of the kind of a leaf."""
    level = None
    while isinstance(leaf, Traced):
        level, leaf = leaf.level, leaf._refresh().primal
    return np.float64(leaf) if type(leaf) is float and level is not None and not level.weak else leaf


def canonical_stand_in(leaf):
    leaf = stand_in(leaf)
    return np.asarray(leaf, order="C") if issubclass(type(leaf), np.ndarray) else leaf
