"""The trace of a compiled function: twice, compared, with all that it reads besides its arguments."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from contextlib import nullcontext, suppress
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import optree

from ..core.conversions import STANDING
from ..core.dispatch import array, holds_traced
from ..core.levels import INSTEAD, Handle
from ..core.traced import Traced
from ..graph.handled import check_handlers
from ..graph.paths import NESTED_TESTS, Apart, Path, alike, counted, types_of
from ..graph.program import Program, Value, kind_of
from ..graph.selection import Selection
from ..graph.symbol import Symbol
from ..graph.trace import Trace, TraceError
from ..graph.turns import loops_in_verbs
from ..support.callers import user_frame, warn
from ..support.collector import collecting_seldom
from ..support.costs import CHUNK_BYTES, KEPT_VARIANTS
from .compiled import BACKENDS, Compiled
from .guards import MISS
from .impure import Drawn, Heard, compare
from .tables import Contents, Wrapper, closed_over, stand_in, with_symbols
from .verify import Checks
from .watch import Watch

RETURNED = (Handle, np.ndarray, np.generic, int, float, complex, str, bytes, np.dtype, type(...))


class Entry:
    """One program of a function, of the paths that are known, and the structure of its result.

    The program has one more output, `left`, where it leads to a path that is not known.
    """

    def __init__(self, compiled, watch, paths, count, checks, integers, below):
        self.compiled, self.watch, self.paths, self.checks, self.guard = compiled, watch, paths, checks, MISS
        self.count = count  # of paths that differ in more than how often loops go round
        #: of each type of result
        self.structures = [path.structure for path in types_of(paths)]
        leaves = sum(structure.num_leaves for structure in self.structures)
        self.left = len(compiled.program.outputs) > leaves + self.several
        self.deep = self.left and any(len(path.tests) > NESTED_TESTS for path in paths)  # it may go on where it has left
        self.integers = integers  # see `Trace`
        self.known = len(paths) + (below.known if below else 0)
        self.below = below  # see `Below`; None where no loop asks for that, False where it cannot be
        self.failed = 0  # paths that could not be traced

    @property
    def structure(self):
        return self.structures[0]

    @property
    def several(self):
        """Whether results are of several types."""
        return len(self.structures) > 1

    @property
    def tests(self):
        """The tests on all paths."""
        return [test for path in self.paths for test in path.tests]

    @property
    def loud(self):
        """What those paths do that are evaluated by the plain function."""
        return list(dict.fromkeys(path.loud for path in self.paths if path.loud))

    def result(self, outs):
        """Return the structure and the leaves of a result (None if the plain function gives it), None where its path is not known."""
        left, k = 0, 0
        if self.left:
            *outs, left = outs
        if self.several:
            *outs, k = outs
        if left:
            return None if left == 1 else (self.structures[k], None)
        start = sum(structure.num_leaves for structure in self.structures[:k])
        return self.structures[k], outs[start : start + self.structures[k].num_leaves]


def trace(jitted, call, examples=None, known=None):
    """Trace a function twice, compare, and return the entry.

    It knows the path of the values of the call, or of these `examples`, besides those of an entry that is `known`: that entry where it
    knows this one, too.
    """
    jitted.traces += 1
    below = None if known is None else known.below
    with collecting_seldom:
        if below:
            with suppress(Exception):  # of the function itself on a path that it is tried on, or of what only a trace without it can do
                return traced_twice(jitted, call, examples, known, below)
            known, below = None, False
        return traced_twice(jitted, call, examples, known, below)


def traced_twice(jitted, call, examples, known, below):
    """Do what `trace` does, where `Below` stands for what verbs differentiate, or may (None), or nothing does (False)."""
    started = perf_counter()
    jitted.began = jitted.began or started
    backend = jitted.backend or ("llvm" if "llvm" in BACKENDS else "numpy")
    read = jitted.f, (*call.fixed.values(), *(slot for slot in call.slots if slot is not Value))
    watch, integers = Watch(*read), {} if known is None else known.integers
    once = partial(traced, jitted.f, call, examples, integers, below)
    drawn = Drawn(watch.generators)
    with Heard() as heard, below or nullcontext():
        first, structure = once()
        for _ in range(KEPT_VARIANTS if below and below.outdated() else 0):
            first, structure = once()
            if not below.outdated():
                break
        drawn.check(jitted.__name__)
        if not watch.fresh():  # what the first call keeps for later ones is read by those
            watch = Watch(*read)
        heard.effect = None  # what only a first call does: files are made, functions are compiled
        second, other = once()
        effect = ("it writes outside" if watch.settle() else None) or heard.effect
        compare(first, second, structure == other, jitted.__name__)
        if below and (first.loud or effect or not below.loops):
            raise TraceError("jit: a verb differentiates a function that is not one operation")
        if first.tests and (first.loud or effect):  # calls on this path are evaluated by the plain function
            first, effect = first._replace(loud=first.loud or effect), None
            heard.silent = True
        if heard.effect and not first.tests and (frame := user_frame(sys._getframe(1))) is not None:
            warn(
                f"jit: {jitted.__name__}: {heard.effect} while it is traced, and not in later calls, which run compiled code: do that "
                f"outside of the function, with what it returns",
                frame,
            )
        effect = jitted.effect or effect
    paths = [first]
    if known is not None:
        same = next((path for path in known.paths if path.truths == first.truths), None)
        if same is not None and same.program.key() == first.program.key():
            return known  # else a chain in it has learnt a path or more turns
    if below is None and not (effect or first.loud) and loops_in_verbs(first.tests):
        with suppress(Exception):  # as in `trace`: what was traced above stands without it
            return traced_twice(jitted, call, examples, None, Below())
        below = False
    if known is not None:
        known.watch.settle()
        watch, effect, paths = known.watch, effect or known.checks.reason, [*(path for path in known.paths if path is not same), first]
    try:
        program, count = counted(paths)
    except Apart:
        paths, (program, count) = [first], counted([first])
    checks = Checks(jitted, program, perf_counter() - started, effect)
    soon = known is None or backend == "numpy" or checks.needed > CHUNK_BYTES
    compiled = Compiled(program, backend, jitted.__name__, jitted.threads, 0 if soon else KEPT_VARIANTS)
    return Entry(compiled, watch, paths, count + (below.count if below else 0), checks, integers, below)


def traced(f, call, examples=None, integers=None, below=None) -> tuple[Path, Any]:
    """Return the path of a function, for the values of a call or for others, and the structure of its result.

    With the `integers` that other paths have met it may be one of several.
    """
    examples = call.examples() if examples is None else examples
    once = partial(traced_once, f, call, examples=examples, integers=integers, below=below)
    try:
        made, objects = once(same)
    except TypeError as error:
        if not getattr(error, "indexed", True):
            raise
        try:  # arrays may be indexed by traced integers, and math called
            return once(with_symbols)[0]
        except TypeError as error:
            with suppress(Exception):
                if getattr(error, "indexed", True):  # and written to where these say
                    return once(partial(with_symbols, numpys=stand_in))[0]
            raise
    if objects and made[0].tests:  # which NumPy's loops over object arrays may have asked for
        with suppress(Exception):
            return once(partial(with_symbols, numpys=stand_in))[0]
    return made


def traced_once(f, call, prepared, examples, integers, below) -> tuple[tuple[Path, Any], Any]:
    """Return the path of ``prepared(f, tracing)`` with the structure of its result, and where object arrays were made, if at all."""
    with Trace(integers is not None, integers) as tracing:
        tracing.below = below
        args, kwargs = call.arguments([tracing.input(example) for example in examples])
        f = prepared(f, tracing)
        try:
            out = f(*args, **kwargs)
        except Exception as error:
            if tracing.refusal is not None and error is not tracing.refusal:
                raise tracing.refusal from error
            raise
        out = array(out) if type(out) is np.ndarray and holds_traced(out) else out
        leaves, structure = optree.tree_flatten(out)
        outputs = []
        for leaf in leaves:
            leaf = array(leaf) if type(leaf) is np.ndarray and holds_traced(leaf) else STANDING.get(type(leaf), same)(leaf)
            what = f"jit: {getattr(f, '__name__', 'the function')} returns: {type(leaf).__name__}"
            if type(leaf) is Selection:
                raise leaf.needs_length(f"a result x[mask] of {getattr(f, '__name__', 'the function')}", leaf.line)
            if isinstance(leaf, Handle) and type(leaf) is not Symbol:
                raise TraceError(f"{what} of a verb that has returned")
            if type(leaf) is str and ("Symbol(" in leaf or tracing.shown):
                raise TraceError(f"{what} made of a traced value, not known yet: return the number, and make the text of it")
            if not isinstance(leaf, RETURNED) and not callable(leaf):
                raise TraceError(
                    f"{what}, which is no array or number: return arrays, numbers, or tuples, lists and dicts of them (register other "
                    f"classes with dualad.register_dataclass)"
                )
            outputs.append(leaf)
        program = tracing.finish(outputs)
        check_handlers(tracing, program, getattr(f, "__name__", "the function"))
        path = Path(program, tracing.tests or [], structure, "it shows a value" if tracing.shown else None)
        return (path, structure), tracing.objects


def same(x, tracing=None):
    return x


class Below:
    """What stands for the functions that verbs differentiate in a trace: each is traced below the level of the verb, on all paths that it
    is known to take, and is one operation, whose derivatives are programs. So a loop in it is a loop in them, too."""

    def __init__(self):
        self.met: dict[Hashable, list] = {}  # by function and kinds, the arguments with which it took a new path
        self.integers: dict[Hashable, dict] = {}  # see `Trace`
        self.counts: dict[Hashable, int] = {}
        self.made: dict[tuple, Compiled] = {}  # by paths
        self.evaluated, self.old = set[Hashable](), False  # in this trace; whether one was before it took a new path

    def __enter__(self):
        self.outdated()
        INSTEAD.append(self.instead)

    def __exit__(self, *exception):
        INSTEAD.remove(self.instead)

    @property
    def loops(self):
        """Whether there is a loop in them that ends by a test."""
        return any(has_loop(compiled.program) for compiled in self.made.values())

    @property
    def count(self):
        """How many paths functions take, besides one of each."""
        return sum(self.counts.values()) - len(self.counts)

    @property
    def known(self):
        """How many paths functions took that branch."""
        return sum(map(len, self.met.values()))

    def outdated(self):
        """Return whether a function took a new path in this trace after it had been evaluated; begin with another trace."""
        old, self.old, self.evaluated = self.old, False, set()
        return old

    def instead(self, f, leaves):
        """Return what a verb differentiates at these leaves: where they are of this trace, that is one operation."""
        ours = any(type(x) is Symbol and x.level.below is self for x in map(bottom, leaves))
        return partial(self.evaluate, f) if ours else f

    def evaluate(self, f, *args):
        """Return ``f(*args)``, which is one operation of the arguments and of the traced values that f reads from variables outside."""
        values, made = closed_over((f, args))
        examples = list(map(example, values))
        key = (code_of(f), *map(kind_of, examples))
        met, integers = self.met.setdefault(key, []), self.integers.setdefault(key, {})
        paths = [self.path(made, given, integers)[0] for given in met]
        new, structure = self.path(made, examples, integers)
        if new.tests and all(new.truths != path.truths for path in paths):
            met.append(examples)
            self.old = self.old or key in self.evaluated
        self.evaluated.add(key)
        paths = list({tuple(path.truths): path for path in (*paths, new)}.values())
        same = tuple((*path.truths, *path.program.key()) for path in paths)
        if same not in self.made:
            if (together := alike(paths)) is None:
                raise TraceError("jit: a function that a verb differentiates returns results of several types")
            program, self.counts[key] = counted(together)
            self.made[same] = Compiled(program, "numpy", getattr(f, "__name__", "function"))
        outs = list(self.made[same](*values))
        if len(outs) > structure.num_leaves:
            left = outs.pop()
            left.level.line = new.tests[-1].line
            bool(left)  # a test of the code around: where it is another, that is traced again
            left.level.line = None
        return optree.tree_unflatten(structure, outs)

    def path(self, made, examples, integers):
        """Return the path that a function takes which is `made` of such values, and the structure of its result."""
        before: list = []

        def of_values(*values):
            f, args = made(values)
            before.append(Contents(f))
            return f(*args)

        call = SimpleNamespace(arguments=lambda values: (values, {}))
        path, structure = traced(of_values, call, examples, integers, self)
        if path.loud or any(contents.changed() for contents in before):
            raise TraceError("jit: a function that a verb differentiates has side effects")
        return path, structure


def bottom(x):
    """Return the value under all levels of verbs."""
    while isinstance(x, Traced) and type(x) is not Symbol:
        x._refresh()
        x = x.primal
    return x


def example(x):
    """Return the plain value of a value; of a symbol, for the examples of the trace with all turns of loops."""
    x = bottom(x)
    return x.level.asked_for(x)[0] if type(x) is Symbol else x


def code_of(f):
    """Return the code of a function, that of the user's where it is called with some arguments."""
    while isinstance(f, partial | Wrapper):
        f = f.f if isinstance(f, Wrapper) else f.args[0] if f.args and callable(f.args[0]) else f.func
    return getattr(f, "__code__", f)


def has_loop(program: Program) -> bool:
    """Return whether there is a loop in a program that ends by a test."""
    functions = [operation.fn for operation in program.operations]
    return any(getattr(fn, "live", None) is not None or any(map(has_loop, getattr(fn, "bodies", {}).values())) for fn in functions)
