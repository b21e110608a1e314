"""The programs and loops of a chain's compiled step, for values that may be Duals: their tangents are leaves of their own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from itertools import islice, pairwise
from threading import get_ident
from time import perf_counter
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import optree

from dualad.codegen.chain_kernels import ChainKernels, emit_advance, emit_pull
from dualad.core.dispatch import dtype_of
from dualad.core.traced import Traced
from dualad.forward.seeding import pack_leaf
from dualad.graph.handled import Handled
from dualad.graph.paths import alike, counted
from dualad.graph.program import Kind, Value, key_of, kind_of, plain_kind, role_of
from dualad.graph.split import Routine, changed, inexact, pulled, pushed, tangent_of
from dualad.graph.to_numpy import compile_python
from dualad.jit.arguments import Call
from dualad.jit.compiled import Compiled
from dualad.jit.jit import Jit, jit
from dualad.jit.verify import EVALUATING, evaluating, plain_results
from dualad.jit.watch import Watch
from dualad.loops.forms import NoLoopForm
from dualad.support.costs import CHUNK_BYTES
from dualad.support.forks import cached_property

from ..support.checks import truth
from ..support.costs import AHEAD_SECONDS
from .other_leaves import NotCompiled, TangentSplit, join_tangents, levels_without_tapes, split_tangents, stand_in
from .spec import StepSpec, is_number, kept, like_leaves, row_of

PLAIN = {float, int, complex, np.ndarray}


class Stepper:
    """What is compiled of a chain's step, for these leaves of its state, inputs and parameters.
    `state`, `inputs` and `params` are plain leaves, of Duals their values and tangents; `nbytes` are those of a state."""

    def __init__(self, spec: StepSpec, state: list[Any], inputs: list[Any], params: list[Any], until: Any = None) -> None:
        self.spec, self.name = spec, spec.source.__name__
        traced = [leaf for leaf in (*state, *inputs, *params) if isinstance(leaf, Traced)]
        self.levels = levels_without_tapes(traced) if traced else []
        self.predicate, self.first_state = until, state
        self.leaves = state, inputs, params
        self.entry: Any = None
        self.compiled: Any
        self.base: Routine
        self.failed: Exception | None = None  # why the path met last is not
        self.loud = False  # whether it is, and the plain function is called for what it does besides
        self.compiling = 0.0  # how many seconds it took last
        self.trace(state, inputs, params)
        self.until = None if until is None else self.traced_predicate(until, state)
        self.state, self.state_splits = self.split(state, all_floating=True)
        self.inputs, self.input_splits = self.split(inputs, rows=True)
        self.params, self.param_splits = self.split(params)
        self.nbytes = sum([np.asarray(leaf).nbytes for leaf in self.state])
        self.key: tuple[Hashable, ...] = len(state), len(inputs), len(params)
        for level, rows, moving in zip(self.levels, self.input_splits, self.param_splits, strict=True):
            self.key += level.directions, level.nan_safe, tuple(rows.positions), tuple(moving.positions)

    # --- programs -----------------------------------------------------------------------------------------------------------

    def trace(self, state: list[Any], inputs: list[Any], params: list[Any]) -> None:
        """Trace the step; raise where it is not one that keeps its state."""
        spec, step = self.spec, self.spec.source
        if EVALUATING and get_ident() in EVALUATING:
            raise NotCompiled("they are compared with those of the plain step")
        if step.backend == "numpy":
            raise NotCompiled("the step is compiled by NumPy's backend")
        for leaf in (*state, *inputs, *params):
            if type(leaf) not in PLAIN and not is_number(leaf):
                raise NotCompiled("there are leaves that are neither numbers nor arrays")
            if type(leaf) is int and leaf.bit_length() > 63:
                raise NotCompiled("an integer has more than 64 bits")
        simple = spec.arguments is tuple and not (inputs or step.static_argnums or step.static_argnames)
        try:  # a gradient through four steps takes 8 % less where the entry is known (2026-11-22)
            entry = (self.known(step, (*state, *params), lambda: self.call) if simple else None) or step.entry(self.call)
        except (Handled, IndexError) as error:  # of an index, the plain steps name the line, if they are made at all
            raise NotCompiled(str(error)) from error
        except TypeError as error:
            spec.explain(0, spec.tree(list(map(canonical_stand_in, state))), spec.arguments(params), inputs, error)
            raise
        self.take(entry)

    def take(self, entry: Any) -> bool:
        """Take the program of an entry for that of the step; return whether there are other paths in it."""
        spec, (_, inputs, params) = self.spec, self.leaves
        if self.entry is entry:
            return False
        key = "step", spec.state_structure, spec.outputs, len(inputs), len(params)
        self.entry = entry
        self.compiled, self.base, self.out_structure, self.paths = kept(entry.compiled, key, lambda: self.grouped(len(inputs), len(params)))
        return True

    def learn(self, k: int, arrays: Sequence[np.ndarray]) -> bool:
        """Trace the path that the predicate takes before step k, or if that is known the one that the step takes.
        Return whether the loops are to be made again; else the plain function makes the step."""
        x = self.input_state(arrays)
        if self.until is not None:
            known, self.until = self.until, self.traced_predicate(self.predicate, self.first_state, [k, *x])
            if self.until.program is not known.program:
                return True
        leaves, entry = self.arguments(k, x), self.entry
        try:
            self.loud = bool(entry.loud) and self.turn(*leaves)[-1] == 2
            if self.loud:
                return False
            return self.take(self.spec.source.extended(entry, self.call, leaves))
        except NotCompiled:
            raise
        except Exception as error:  # which may be the step's own
            self.failed = error
            return False

    def make_plainly(self, k: int, arrays: Sequence[np.ndarray]) -> tuple[list[Any], list[Any]]:
        """Return the leaves of the state that the plain function makes of x_k, and of what step k puts out; an error names the step."""
        spec, (_, inputs, params) = self.spec, self.leaves
        flat = spec.flat_step(spec.source.f)
        try:
            with evaluating(), np.errstate(all="ignore"):
                try:
                    leaves, out = flat(k, self.state_leaves(k, arrays), row_of(inputs, k), spec.arguments(params))
                except Exception:
                    if self.levels:  # the message of an error may show what a tangent has no text for
                        plain_results(spec.source.f, self.call, self.plain_leaves(k, arrays))
                    raise
        except Exception as error:
            error.add_note(f"chain: in step {k}")
            raise
        outs = list(map(pack_leaf, optree.tree_leaves(out)))
        for split in self.outs[1]:
            outs = split_tangents(outs, split._replace(rows=False))
        return self.split(list(map(pack_leaf, leaves)), all_floating=True)[0], outs

    def warn(self) -> None:
        """Warn, once, that the path met last is not compiled."""
        failed, self.failed = self.failed, None
        self.spec.source.warn(failed)

    def look_ahead(self, k: int, arrays: Sequence[np.ndarray], stop: int | None) -> None:
        """Trace the paths that the next steps take before loops are compiled, so that this is done once; errors are left to the steps."""
        if not self.base.outputs[2] or self.entry.checks.needed > 2 * CHUNK_BYTES:
            return
        if self.advance_key in vars(self.compiled).get("of_chains", ()):
            return
        started, x = perf_counter(), self.input_state(arrays)
        try:
            while k != stop and perf_counter() - started < max(AHEAD_SECONDS, self.compiling):
                if self.until is not None and truth(self.predicate(k, self.spec.tree(x)), where="chain", k=k):
                    return
                leaves = self.arguments(k, x)
                *made, left = self.turn(*leaves)
                if left != 1:  # it is known, loud or not
                    x, k = self.input_state(made), k + 1
                elif not self.take(self.spec.source.extended(self.entry, self.call, leaves)) or not self.base.outputs[2]:
                    return
                else:
                    started = perf_counter()
        except NotCompiled:
            raise
        except Exception:  # of a step that raises it in its turn
            return

    @cached_property
    def call(self) -> Call:
        spec, (state, inputs, params) = self.spec, self.leaves
        rows = [stand_in(leaf)[0] for leaf in inputs]
        given = (optree.tree_unflatten(spec.inputs_structure, rows),) if spec.has_inputs else ()
        tree = spec.tree(list(map(canonical_stand_in, state)))
        return Call(spec.source, (0, tree, *given, *spec.arguments(list(map(stand_in, params)))), {})

    def known(self, source: Jit, leaves: Sequence[Any], call: Callable[[], Call]) -> Any:
        """Return the entry of a call with k and these leaves, if it is still true; None of leaves, or trees, that are not plain."""
        spec, kinds = self.spec, list(map(plain_kind, leaves))
        if None in kinds or not (spec.state_structure.is_leaf() or spec.tree is tuple):  # of dicts the order counts, too
            return None
        key = kept(source, ("call", spec.state_structure, *kinds), lambda: call().key)
        entry = source.entries.get(key)
        if entry is None or not entry.watch.fresh():
            return None
        source.entries.move_to_end(key)
        return entry

    def grouped(self, rows: int, params: int) -> tuple[Compiled, Routine, optree.PyTreeSpec, str]:
        """Return what is compiled of a step, its program in groups, the structure of an out, and the words for the paths it knows."""
        spec, entry, out = self.spec, self.entry, None
        compiled = kept(entry.compiled, "alike", lambda: of_one_type(entry)) if entry.several else entry.compiled
        program = compiled.program
        count = len(spec.state)
        if len(program.inputs) != 1 + count + rows + params:
            raise NotCompiled("some arguments of the step are static")
        given, left = program.outputs[: entry.structure.num_leaves], program.outputs[entry.structure.num_leaves :]
        made: Any = optree.tree_unflatten(entry.structure, list(given))
        if spec.outputs:
            if not isinstance(made, tuple) or len(made) != 2:
                raise NotCompiled("the step returns no pair of state and out")
            made, out = made
        if optree.tree_structure(made) != spec.state_structure:
            raise NotCompiled("the step changes the structure of its state")
        for i, change in enumerate(map(changed, program.inputs[1 : 1 + count], program.outputs[:count])):
            if change:
                raise NotCompiled(f"the step makes {spec.path(i)} {change}")
        inputs = program.inputs
        ends = [0, 1, 1 + count, 1 + count + rows, len(inputs)]
        groups = [inputs[a:b] for a, b in pairwise(ends)]
        outputs = [list(map(kind_of, group)) for group in (given[:count], given[count:], left)]
        if any(out.dtype.kind not in "biufc" for out in outputs[1]):
            raise NotCompiled("the step puts out what is no number")
        paths = entry.count
        told = f"; the step has taken {paths} path{'s' * (paths > 1)}" if entry.left or paths > 1 else ""
        return compiled, Routine(program, groups, outputs, []), optree.tree_structure(out), told  # type: ignore[arg-type]

    def example(self) -> Routine:
        """Return `base` with this call's arguments, which nothing keeps."""
        given = iter(self.call.examples())
        return self.base._replace(examples=[list(islice(given, len(group))) for group in self.base.inputs])

    def traced_predicate(self, until: Any, state: list[Any], path: list[Any] | None = None) -> Routine:
        """Return the program of the predicate, which sees plain values; it knows the path that is taken at the leaves `path`, too."""
        try:
            jitted = predicate(until)
            make = lambda: Call(jitted, (0, self.spec.tree(list(map(canonical_stand_in, state)))), {})
            known = self.known(jitted, state, make) if path is None else None
            made = None if known is None else vars(known.compiled).get("of_chains", {}).get("until")
            if made is not None:
                return made
            watch, call = Watch(jitted.f), make()
            entry = jitted.entry(call)
            if path is not None:
                entry = jitted.extended(entry, call, path)
        except Exception as error:
            raise NotCompiled(f"until cannot be traced: {error}") from error
        program = entry.compiled.program
        out = kind_of(program.outputs[0]) if entry.structure.num_leaves == 1 else None
        if out is None or out.shape or out.dtype.kind not in "bi" or len(program.inputs) != 1 + len(state):
            raise NotCompiled("until cannot be traced: it returns neither True nor False")
        if not isinstance(program.outputs[0], Value) or entry.loud or not watch.fresh():
            raise NotCompiled("until cannot be traced: its answer is no function of k and the state")
        outputs = [[out], list(map(kind_of, program.outputs[1:]))]
        return kept(entry.compiled, "until", lambda: Routine(program, [program.inputs[:1], program.inputs[1:]], outputs, []))

    def asked(self, k: int, arrays: Sequence[np.ndarray]) -> bool:
        """Return what the predicate itself says of k and the state."""
        words = self.words(k)
        own = map(np.copy, arrays[: len(words)]) if not isinstance(self.predicate, Jit) else arrays[: len(words)]
        return truth(self.predicate(k, self.spec.tree(like_leaves(own, words))), where="chain", k=k)

    def words(self, k: int) -> list[str]:
        """Return what the leaves of x_k are to Python."""
        return [out.kind for out in self.base.outputs[0]] if k else [role_of(stand_in(leaf)) for leaf in self.first_state]

    def state_leaves(self, k: int, arrays: Sequence[np.ndarray]) -> list[Any]:
        """Return the leaves of x_k, of their own, Duals where there are levels."""
        return join_tangents(like_leaves(map(np.copy, arrays), words_of(self.words(k), self.state_splits)), self.state_splits)

    @property
    def due(self) -> bool:
        """Whether a step is to be compared with the plain one, which would do again what it does besides giving a result."""
        return self.entry.checks.due() and not self.entry.loud

    def input_state(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the values of the leaves of a state, of their own, as the program of the step takes them."""
        kinds = [value.kind for value in self.base.inputs[1]]
        return like_leaves(map(np.copy, arrays[: len(kinds)]), kinds)

    def arguments(self, k: int, state: list[Any]) -> list[Any]:
        """Return the leaves of the arguments of step k, without derivatives."""
        return [k, *state, *(stand_in(leaf)[k] for leaf in self.spec.inputs), *map(stand_in, self.spec.params)]

    def plain_leaves(self, k: int, arrays: Sequence[np.ndarray]) -> list[Any]:
        """Return the leaves of the arguments of step k, without derivatives, as the plain function gets them."""
        words = self.words(k)
        return self.arguments(k, like_leaves(map(np.copy, arrays[: len(words)]), words))

    @property
    def turn(self) -> Callable[..., list[Any]]:
        """The program of the step in Python, which makes one step."""
        return kept(self.compiled, "turn", lambda: compile_python(self.compiled.program).call)

    def step(self) -> Routine:
        """Return the routine of a step of the plain leaves."""
        routine = self.example()
        for k, level in enumerate(self.levels):
            routine = pushed(routine, self.active(routine, k), level.directions, level.nan_safe)
        return routine

    def pull(self, rows: list[int], params: list[int], nan_safe: bool) -> Routine:
        """Return the routine of the pullback of a step, to these inputs and parameters."""
        routine = pulled(self.certain(), rows, params, nan_safe)
        for k, level in enumerate(self.levels):
            gs = [list(range(len(routine.inputs[group]))) for group in (4, 5)]
            routine = pushed(routine, [*self.active(routine, k), *gs], level.directions, level.nan_safe)
        return routine

    def certain(self) -> Routine:
        """Return the routine of steps that have been made: rounded otherwise, a test leads to no path that is not known."""
        routine = self.example()
        if not routine.outputs[2]:
            return routine
        compiled: Compiled = kept(self.compiled, "certain", lambda: of_one_type(self.entry, certain=True))
        values = iter(compiled.program.inputs)
        inputs = [list(islice(values, len(group))) for group in routine.inputs]
        return Routine(compiled.program, inputs, [*routine.outputs[:2], []], routine.examples)

    def active(self, routine: Routine, k: int) -> list[list[int]]:
        """Return which arguments of a step have tangents at level number k."""
        return [[], inexact(routine.inputs[1]), self.input_splits[k].positions, self.param_splits[k].positions]

    # --- loops --------------------------------------------------------------------------------------------------------------

    @property
    def advance_key(self) -> tuple[Hashable, ...]:
        return "advance", None if self.until is None else id(self.until.program), *self.key

    def advance_loops(self) -> ChainKernels:
        return self.emitted(self.advance_key, lambda: emit_advance(self.step(), self.until, self.compiled.threads))

    def pull_loops(self, rows: list[int], params: list[int], nan_safe: bool) -> ChainKernels:
        key = "pull", tuple(rows), tuple(params), nan_safe, *self.key
        return self.emitted(key, lambda: emit_pull(self.step(), self.pull(rows, params, nan_safe), self.compiled.threads))

    def emitted(self, key: Hashable, make: Callable[[], ChainKernels]) -> ChainKernels:
        """Return compiled loops that were made before for this program, or are now."""

        def emit() -> tuple[ChainKernels | NoLoopForm, Any]:
            try:
                return make(), self.until
            except NoLoopForm as reason:
                return reason, None

        loops, _ = kept(self.compiled, key, emit)
        if isinstance(loops, NoLoopForm):
            raise NotCompiled(str(loops))
        if not loops.compiled:
            self.compile(loops)
        return loops

    def compile(self, loops: ChainKernels) -> None:
        """Compile loops before the first sweep, so that what cannot be compiled shows before a long run."""
        started = perf_counter()
        try:
            loops.compile()
        except Exception as error:
            warnings.warn(f"chain: LLVM failed on {self.name}, whose steps run one by one instead: {error!r}", stacklevel=6)
            known = self.compiled.of_chains
            keys = [key for key, made in known.items() if isinstance(made, tuple) and made[0] is loops]
            known.update(dict.fromkeys(keys, (NoLoopForm("LLVM failed"), None)))
            raise NotCompiled("LLVM failed") from error
        self.compiling = perf_counter() - started

    # --- leaves -------------------------------------------------------------------------------------------------------------

    @property
    def kinds(self) -> list[str]:
        """What the leaves of a state that a step returns are to Python."""
        return words_of([out.kind for out in self.base.outputs[0]], self.state_splits)

    def duals(self, parts: Sequence[np.ndarray], likes: Sequence[Any]) -> list[Any]:
        """Return arrays as the numbers that stand for these leaves, Duals where there are levels."""
        if not self.levels:
            return like_leaves(parts, likes)
        words = [role_of(stand_in(leaf)) for leaf in likes]
        splits = self.all_splits(len(likes))
        return join_tangents(like_leaves(parts, words_of(words, splits)), splits)

    def split(self, leaves: list[Any], all_floating: bool = False, rows: bool = False) -> tuple[list[Any], list[TangentSplit]]:
        """Return the plain leaves of Duals, and what was taken off: the tangents there are, or those of all floating leaves."""
        splits: list[TangentSplit] = []
        for level in self.levels:
            positions = [i for i, leaf in enumerate(leaves) if dtype_of(leaf).kind in "fc"] if all_floating else None
            splits.append(TangentSplit.of(level, leaves, positions, rows))
            leaves = split_tangents(leaves, splits[-1])
        return leaves, splits

    def all_splits(self, count: int, rows: bool = False) -> list[TangentSplit]:
        return [TangentSplit(level, count << k, list(range(count << k)), rows) for k, level in enumerate(self.levels)]

    @property
    def outs(self) -> tuple[list[Kind], list[TangentSplit]]:
        """The kinds of what a step puts out, with the tangents, and how these are taken off."""
        splits: list[TangentSplit] = []
        outs = self.base.outputs[1]
        for level in self.levels:
            splits.append(TangentSplit(level, len(outs), inexact(outs), True))
            outs = [*outs, *(tangent_of(outs[i], level.directions) for i in splits[-1].positions)]
        return outs, splits


def words_of(words: list[str], splits: Sequence[TangentSplit]) -> list[str]:
    """Return what leaves, and their tangents behind them, are to Python."""
    for level, _, positions, _ in splits:
        words = [*words, *(words[i] if level.directions is None else "array" for i in positions)]
    return words


def of_one_type(entry: Any, certain: bool = False) -> Compiled:
    """Return the program of an entry whose results differ in what numbers are to Python; with `certain`, of paths that are known."""
    same, compiled = alike(entry.paths), entry.compiled
    if same is None:
        raise NotCompiled("the step returns results of several types, by the path that it takes")
    return Compiled(counted(same, certain)[0], compiled.backend, compiled.__name__, compiled.threads)


def predicate(until: Any) -> Jit:
    """Return the predicate as a function that jit traces, with answers of one type: the same one for one code with the same closure."""
    if isinstance(until, Jit):
        return until
    key = key_of_predicate(until)
    for _ in range(2):
        made: Jit = kept(PREDICATES, key, lambda: jit(wraps(until)(lambda k, state: np.logical_and(until(k, state), True))))
        if key_of_predicate(made.f.__wrapped__) == key:
            break
        PREDICATES.of_chains.pop(key, None)  # variables that it closed over have changed
    return made


def key_of_predicate(until: Any) -> Hashable:
    """Return what predicates have in common that are the same function, made again; other objects, as methods, stand for themselves."""
    if type(until) is not FunctionType:
        return until
    try:
        held = [cell.cell_contents for cell in until.__closure__ or ()]
        parts = [id(part) if type(part) is np.ndarray else key_of(part) for part in (*held, until.__defaults__, until.__kwdefaults__)]
        return until.__code__, id(until.__globals__), *parts
    except (TypeError, ValueError):  # variables that are not yet bound
        return until


PREDICATES = SimpleNamespace()


def canonical_stand_in(leaf: Any) -> Any:
    leaf = stand_in(leaf)
    return np.asarray(leaf, order="C") if issubclass(type(leaf), np.ndarray) else leaf
