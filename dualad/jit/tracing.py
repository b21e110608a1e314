"""The trace of a compiled function: twice, compared, with all that it reads besides its arguments."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import optree

from ..core.dispatch import array, holds_traced
from ..core.levels import Handle
from ..graph.handled import check_handlers
from ..graph.paths import Apart, Path, counted, types_of
from ..graph.program import Value
from ..graph.selection import Selection
from ..graph.symbol import Symbol
from ..graph.trace import Trace, TraceError
from ..support.costs import NESTED_TESTS, WAITING_BYTES, WAITING_CALLS, WAITING_SECONDS
from .compiled import BACKENDS, Compiled
from .guards import MISS
from .impure import Clocks, Drawn, Unheard, compare
from .tables import with_symbols
from .verify import Checks
from .watch import Watch

__all__ = ["Entry", "trace", "traced"]

RETURNED = (Handle, np.ndarray, np.generic, int, float, complex, str, bytes, np.dtype, type(...))


class Entry:
    """One program of a function, of the paths that are known, and the structure of its result.

    The program has one more output, `left`, where it leads to a path that is not known.
    """

    __slots__ = ("checks", "compiled", "count", "deep", "failed", "guard", "integers", "left", "paths", "structures", "watch")

    def __init__(self, compiled, watch, paths, count, checks, integers):
        self.compiled, self.watch, self.paths, self.checks, self.guard = compiled, watch, paths, checks, MISS
        self.count = count  # of paths that differ in more than how often loops go round
        #: of each type of result
        self.structures = [path.structure for path in types_of(paths)]
        leaves = sum(structure.num_leaves for structure in self.structures)
        self.left = len(compiled.program.outputs) > leaves + self.several
        self.deep = self.left and any(len(path.tests) > NESTED_TESTS for path in paths)  # it may go on where it has left
        self.integers = integers  # see `Trace`
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


def default_backend():
    """Return the backend that is used where none is named."""
    return "llvm" if "llvm" in BACKENDS else "numpy"


def trace(jitted, call, examples=None, known=None):
    """Trace a function twice, or once more in another second, compare, and return the entry.

    It knows the path of the values of the call, or of these `examples`, besides those of an entry that is `known`: that entry where it
    knows this one, too.
    """
    started = perf_counter()
    jitted.began = jitted.began or started
    jitted.traces += 1
    backend = jitted.backend or default_backend()
    read = jitted.f, (*call.fixed.values(), *(slot for slot in call.slots if slot is not Value))
    watch, integers = Watch(*read), {} if known is None else known.integers
    drawn = Drawn(watch.generators)
    with Unheard() as out:
        first, structure = traced(jitted.f, call, backend == "numpy", examples, integers)
        drawn.check(jitted.__name__)
        if not watch.fresh():  # what the first call keeps for later ones is read by those
            watch = Watch(*read)
        with Clocks() as clocks:
            second, other = traced(jitted.f, call, backend == "numpy", examples, integers)
        effect = ("it writes outside" if watch.settle() else None) or clocks.effect
        clocks.check(jitted.__name__)
        compare(first, second, structure == other, jitted.__name__)
        if clocks.elsewhere:
            clocks.wait()
            third, other = traced(jitted.f, call, backend == "numpy", examples, integers)
            compare(first, third, structure == other, jitted.__name__)
        if first.tests and (first.loud or effect):  # calls on this path are evaluated by the plain function
            first, effect = first._replace(loud=first.loud or effect), None
            out.heard = True
        effect = jitted.effect or effect
    paths = [first]
    if known is not None:
        same = next((path for path in known.paths if path.truths == first.truths), None)
        if same is not None and same.program.key() == first.program.key():
            return known  # else a chain in it has learnt a path or more turns
        known.watch.settle()
        watch, effect, paths = known.watch, effect or known.checks.reason, [*(path for path in known.paths if path is not same), first]
    try:
        program, count = counted(paths)
    except Apart:
        paths, (program, count) = [first], counted([first])
    checks = Checks(jitted, program, perf_counter() - started, effect)
    soon = known is None or backend == "numpy" or checks.cost > WAITING_SECONDS or checks.needed > WAITING_BYTES
    compiled = Compiled(program, backend, jitted.__name__, jitted.threads, 0 if soon else WAITING_CALLS)
    return Entry(compiled, watch, paths, count, checks, integers)


def traced(f, call, exact, examples=None, integers=None) -> tuple[Path, Any]:
    """Return the path of a function, for the values of a call or for others, and the structure of its result.

    With the `integers` that other paths have met it may be one of several.
    """
    examples = call.examples() if examples is None else examples
    try:
        return traced_once(f, call, exact, lambda f, tracing: f, examples, integers)
    except TraceError as error:
        if not error.indexed:
            raise
        return traced_once(f, call, exact, with_symbols, examples, integers)  # arrays may be indexed by traced integers, and math called


def traced_once(f, call, exact, prepared, examples, integers) -> tuple[Path, Any]:
    """Return the path of ``prepared(f, tracing)``, and the structure of its result."""
    with Trace(integers is not None, integers) as tracing:
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
            leaf = array(leaf) if type(leaf) is np.ndarray and holds_traced(leaf) else leaf
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
        return Path(program, tracing.tests or [], structure, "it shows a value" if tracing.shown else None), structure
