"""jit: compile a function of plain NumPy code, one program for each kind of arguments."""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import update_wrapper
from threading import get_ident
from time import perf_counter
from types import CellType, FunctionType, MethodType
from typing import Any, Generic, overload
from weakref import WeakKeyDictionary

import numpy as np
import optree

from ..core.dispatch import array, highest, holds_traced
from ..core.levels import Handle, errors_as_in
from ..forward.seeding import check_function
from ..graph.handled import Handled, check_handlers, in_plain_code, own
from ..graph.program import Program, Value
from ..graph.symbol import Symbol
from ..graph.trace import BY_VALUE, Trace, TraceError
from ..rules.calling import signature
from ..support.callers import trim
from ..support.costs import KEPT_VARIANTS
from ..support.hints import Rest, Result
from .arguments import Call
from .compiled import BACKENDS, Compiled, without_llvm
from .guards import MISS, guard_of
from .impure import ELSEWHERE, Clocks, Drawn, compare
from .verify import EVALUATING, Checks, difference, evaluating, plain_results, same_results, stale
from .watch import Watch, mentioned

__all__ = ["Jit", "jit", "with_symbols"]

RETURNED = (Handle, np.ndarray, np.generic, int, float, complex, str, bytes, np.dtype, type(...))


@overload
def jit(
    f: None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    backend: str | None = None,
    cache_size: int = 64,
    threads: int | None = None,
    verify: bool | None = None,
) -> Callable[[Callable[Rest, Result]], Jit[Rest, Result]]: ...
@overload
def jit(
    f: Callable[Rest, Result],
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    backend: str | None = None,
    cache_size: int = 64,
    threads: int | None = None,
    verify: bool | None = None,
) -> Jit[Rest, Result]: ...
def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    backend: str | None = None,
    cache_size: int = 64,
    threads: int | None = None,
    verify: bool | None = None,
) -> Any:
    """Compile a function: its operations are traced once for each kind of arguments, optimised, and run as one program.

    Parameters
    ----------
    f : function of arrays and numbers, or pytrees of them, in plain NumPy. It returns the same. It may be called inside of any verb
        of `dualad` and `checkpoint`, and may call them: ``jit(grad(f))``, ``grad(jit(f))``, jit in jit.
    static_argnums, static_argnames : positions (an int or several) and names (a text or several) of arguments that are compiled in:
        lengths, numbers of turns, options. They must be hashable. Booleans, texts, None and functions are static by themselves.
    backend : "llvm", machine code of loops, or "numpy", straight-line NumPy code. By default "llvm" where llvmlite is installed.
    threads : over how many threads large loops are split, in blocks of rows that depend on the shapes alone: the bits are the same for
        every number of threads. By default one, without blocks (sums of many terms then differ in last bits). With "llvm" only.
        The steps of a `chain`, too: Python then calls the loops of each, which takes some 10 us a step.
    verify : whether results are compared with those of the plain function, so that a change of what it reads shows that is not seen
        otherwise. By default at calls 2, 4, 8, 16, ... of each program, put off until they take less than 1 % of the time since the
        first trace; True: at every call, False: never.
    cache_size : how many programs are kept; the one not used for longest is dropped.

    Returns
    -------
    function with f's arguments, and ``program(*args)``, ``source(*args)``, ``explain(*args)``, which return texts; ``cache_clear()``
    forgets all programs. Its attributes ``traces`` and ``verifications`` count the programs that were traced, and the calls that were
    compared with the plain function.

    Warns
    -----
    StaleWarning
        (`dualad.StaleWarning`) At a call whose comparison shows that the program is stale. It names the result that differs; the
        function is traced again, and the right result is returned.

    Raises
    ------
    TypeError
        At a call, where the function cannot be traced: it branches on a value, needs a shape that depends on data, computes with
        random numbers or a clock. The message names the line and the way out.
    TypeError, ValueError
        At once, where an option is of the wrong kind, or `static_argnames` names no parameter of f.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import jit, derivative
    >>> @jit
    ... def f(x):
    ...     return np.sum(np.sin(x) ** 2)
    >>> f(np.zeros(3)), derivative(lambda t: f(t * np.ones(2)))(0.0)
    (np.float64(0.0), 0.0)

    Notes
    -----
    Arguments are never written: where `f` assigns to an argument's elements, it assigns to a copy, and results share no memory with
    arguments. What `f` reads from variables outside is compiled in, and checked at each call: a change traces again (of containers
    of more than 5000 elements, one of the length). What is not seen so shows by the results, see `verify`: a function that writes
    outside, prints or logs is not compared. Printing and other effects happen while tracing, twice. No floating-point warnings
    are given. With "llvm", Python floats divide and are raised to powers as NumPy's: ``1.0 / 0.0`` is inf, and a root of a negative
    number NaN.
    """
    if f is None:
        options: dict[str, Any] = {"backend": backend, "cache_size": cache_size, "threads": threads, "verify": verify}
        return lambda f: jit(f, static_argnums=static_argnums, static_argnames=static_argnames, **options)
    check_function(f, "jit")
    if backend is not None and backend not in BACKENDS:
        missing = {"llvm": f" ({without_llvm()})", "numba": "; that of compiled loops is called 'llvm' now"}.get(backend, "")
        raise ValueError(f"jit: backend is {backend!r}: give one of {', '.join(map(repr, BACKENDS))}, or None{missing}")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise ValueError(f"jit: threads is {threads!r}: give the number of threads, 1 or more, or None")
    if type(cache_size) is not int or cache_size < 1:
        raise ValueError(f"jit: cache_size is {cache_size!r}: give the number of programs to keep, 1 or more")
    if verify is not None and type(verify) is not bool:
        raise ValueError(f"jit: verify is {verify!r}: give True (compare every call), False (none), or None (some, see help(jit))")
    numbers, names = (
        several(static_argnums, int | np.integer, "static_argnums", "positions"),
        several(static_argnames, str, "static_argnames", "names"),
    )
    for name in names:
        if not takes(f, name):
            raise ValueError(f"jit: static_argnames names {name!r}, which is no parameter of {getattr(f, '__name__', f)}")
    return Jit(f, numbers, names, backend, cache_size, threads, verify)


def several(given, kind, argument, what):
    """Return one or several positions or names as a tuple."""
    values = (given,) if issubclass(type(given), int | str) or not isinstance(given, Iterable) else tuple(given)
    if not all(isinstance(value, kind) and type(value) is not bool for value in values):
        raise TypeError(f"jit: {argument} is {given!r}: give {what} of arguments, one or several")
    return values


def takes(f, name):
    """Return whether a function has a parameter of this name, as far as is known."""
    parameters = signature(f).parameters
    return not parameters or name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


class Jit(Generic[Rest, Result]):
    """A compiled function; see `jit`."""

    def __init__(self, f, static_argnums, static_argnames, backend, cache_size, threads=None, verify=None):
        update_wrapper(self, f)
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        self.f, self.static_argnums, self.static_argnames = f, static_argnums, static_argnames
        self.backend, self.cache_size, self.threads = backend, cache_size, threads
        self.verify, self.traces, self.verifications = verify, 0, 0
        self.effect: str | None = None  # that was seen when the plain function was called
        self.began = self.spent = 0.0  # when the first trace was, and the time of comparisons
        self.entries: OrderedDict[object, Entry] = OrderedDict()
        self.guards: tuple = ()  # of the programs made last
        self.flat_guards: tuple = ()
        self.methods: WeakKeyDictionary = WeakKeyDictionary()

    def __call__(self, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        guards = self.guards
        try:
            if guards:  # a loop over all of them would cost the first one an iterator
                result = guards[0](args, kwargs)
                if result is not MISS:
                    return result
                for guard in guards[1:]:
                    result = guard(args, kwargs)
                    if result is not MISS:
                        return result
        except BY_VALUE as error:
            return in_plain_code(self.f, args, kwargs, error)
        if EVALUATING and get_ident() in EVALUATING:
            return self.plainly(args, kwargs)
        context = copy_context()
        try:
            call = Call(self, args, kwargs)
            if call.abstract:
                return self.f(*args, **kwargs)
            try:
                entry = self.entry(call)
                outs = entry.compiled(*call.leaves)
                if entry.checks.due():
                    right, outs = self.compared(entry, call, call.examples(), outs)
                    if right is not entry:
                        entry = right
                        entry.checks.due()
            except (Handled, *BY_VALUE) as error:
                return in_plain_code(self.f, args, kwargs, error)
            if not (call.traced or entry.checks.always):
                self.guard(entry, call, args, kwargs)
        except Exception as error:
            trim(error)
            raise
        except BaseException:
            errors_as_in(context)
            raise
        return optree.tree_unflatten(entry.structure, outs)  # type: ignore[return-value]

    def plainly(self, args, kwargs):
        """Return what the plain function gives, which shares no memory with arguments."""
        given: Any = args, kwargs
        args, kwargs = optree.tree_map(own, given)
        return optree.tree_map(own, self.f(*args, **kwargs))

    def compared(self, entry, call, leaves, outs, evaluate=lambda compiled, call: compiled(*call.leaves), depth=3):
        """Return an entry and its results: those given, or where the plain function shows that the program is stale, new ones."""
        where = failed = None
        try:
            with entry.checks.measured():
                where = difference(entry.structure, outs, *plain_results(self.f, call, leaves))
        except Exception as error:
            failed = error
        if failed is None and not entry.watch.fresh():
            self.effect = "it writes outside"
            entry.checks.stop(self.effect)
        if failed is None and where is None:
            return entry, outs
        try:
            with evaluating():
                new = trace(self, call)
            before, after = evaluate(entry.compiled, call), evaluate(new.compiled, call)
        except Exception as error:
            self.cache_clear()
            raise error from failed
        if entry.structure == new.structure and same_results(before, after):
            if not entry.checks.always:
                entry.checks.stop("it raises there" if failed else f"{where} differs, by last digits that it magnifies")
            return entry, outs
        self.cache_clear()
        self.entries[call.key] = new
        warnings.warn(stale(self.__name__, entry.structure, before, after, new.structure), stacklevel=depth)
        return new, after

    def flat(self, args, kwargs, into=None):
        """Return the results, arrays of one dtype, one after the other in one flat array: in `into`, unless it does not fit."""
        with suppress(*BY_VALUE):  # by the plain function
            for guard in self.flat_guards:
                result = guard(args, kwargs, into)
                if result is not MISS:
                    return result
        call = Call(self, args, kwargs)
        results = np.concatenate([np.ravel(out) for out in optree.tree_leaves(self(*args, **kwargs))])
        if not (call.abstract or call.traced or self.verify is True) and call.key in self.entries:
            guard = guard_of(call, args, kwargs, self.entries[call.key], flat=True)
            self.flat_guards = (guard, *self.flat_guards[: KEPT_VARIANTS - 1]) if guard is not None else self.flat_guards
            if into is not None and into.dtype == results.dtype and into.shape == results.shape:
                into[...] = results
                return into
        return results

    def guard(self, entry, call, args, kwargs):
        """Let calls of this kind go the short way from now on."""
        if entry.guard is MISS:
            entry.guard = guard_of(call, args, kwargs, entry)
        if entry.guard is not None and entry.guard not in self.guards:
            self.guards = (entry.guard, *self.guards[: KEPT_VARIANTS - 1])

    def __reduce__(self):
        """Return the name where there is one, else what it is made of: it is traced again in the other process."""
        module, name = getattr(self.f, "__module__", ""), getattr(self.f, "__qualname__", "")
        if module != "__main__" and getattr(sys.modules.get(module or ""), name, None) is self:
            return name
        return type(self), (self.f, self.static_argnums, self.static_argnames, self.backend, self.cache_size, self.threads, self.verify)

    def __get__(self, instance, owner=None):
        """Return the compiled method of an instance, which is static: what its attributes hold is checked at each call."""
        if instance is None:
            return self
        try:
            known = self.methods.get(instance)
            if known is None:
                known = self.methods[instance] = self.of_method(instance)
        except TypeError:  # an instance that cannot be referred to weakly, or not hashed
            return self.of_method(instance)
        return known

    def of_method(self, instance):
        numbers = tuple(i - 1 for i in self.static_argnums if i > 0)
        return Jit(MethodType(self.f, instance), numbers, self.static_argnames, self.backend, self.cache_size, self.threads, self.verify)

    def entry(self, call):
        """Return the entry for a call, traced where there is none or where what the function reads has changed."""
        entry = self.entries.get(call.key)
        if entry is None or not entry.watch.fresh():
            entry = self.entries[call.key] = trace(self, call)
            self.guards = self.flat_guards = ()
        self.entries.move_to_end(call.key)
        while len(self.entries) > self.cache_size:
            self.entries.popitem(last=False)
            self.guards = self.flat_guards = ()
        return entry

    def cache_clear(self):
        """Forget all programs."""
        self.entries.clear()
        self.guards = self.flat_guards = ()

    def program(self, *args, **kwargs):
        """Return the optimised program for these arguments, as text."""
        return str(self.entry(Call(self, args, kwargs)).compiled.program)

    def source(self, *args, **kwargs):
        """Return the source that runs for these arguments; comments name the lines of the function."""
        return self.entry(Call(self, args, kwargs)).compiled.executable.source

    def explain(self, *args, **kwargs):
        """Return what was made of the function for these arguments."""
        entry = self.entry(Call(self, args, kwargs))
        compiled, reason = entry.compiled, entry.checks.reason
        missing = without_llvm() if self.backend is None else ""
        text = (
            f"{compiled.__name__}: {entry.traced} operations traced, {len(compiled.program.operations)} left; {compiled.executable.notes}"
        )
        text += f", because {missing}" if missing else ""
        return text + (f"; not compared with the plain function: {reason}" if reason else "")


class Entry:
    """One program of a function, and the structure of its result."""

    __slots__ = ("checks", "compiled", "guard", "structure", "traced", "watch")

    def __init__(self, compiled, structure, watch, traced, checks):
        self.compiled, self.structure, self.watch, self.traced, self.guard = compiled, structure, watch, traced, MISS
        self.checks = checks


def default_backend():
    """Return the backend that is used where none is named."""
    return "llvm" if "llvm" in BACKENDS else "numpy"


# --- the trace ------------------------------------------------------------------------------------------------------------------


def trace(jitted, call):
    """Trace a function twice, or once more in another second, compare, and return the entry."""
    started = perf_counter()
    jitted.began = jitted.began or started
    jitted.traces += 1
    backend = jitted.backend or default_backend()
    read = jitted.f, (*call.fixed.values(), *(slot for slot in call.slots if slot is not Value))
    watch = Watch(*read)
    drawn = Drawn(watch.generators)
    first, structure = traced(jitted.f, call, backend == "numpy")
    drawn.check(jitted.__name__)
    if not watch.fresh():  # what the first call keeps for later ones is read by those
        watch = Watch(*read)
    with Clocks() as clocks:
        second, other = traced(jitted.f, call, backend == "numpy")
    effect = jitted.effect or ("it writes outside" if watch.settle() else None) or clocks.effect
    clocks.check(jitted.__name__)
    compare(first, second, structure == other, jitted.__name__)
    if clocks.elsewhere:
        clocks.wait()
        third, other = traced(jitted.f, call, backend == "numpy")
        compare(first, third, structure == other, jitted.__name__)
    checks = Checks(jitted, first, perf_counter() - started, effect)
    compiled = Compiled(first, backend, jitted.__name__, jitted.threads)
    return Entry(compiled, structure, watch, len(first.operations), checks)


def traced(f, call, exact) -> tuple[Program, Any]:
    """Return the program of a function, and the structure of its result."""
    try:
        return traced_once(f, call, exact, lambda f, tracing: f)
    except TraceError as error:
        if not error.indexed:
            raise
        return traced_once(f, call, exact, with_symbols)  # arrays outside may be indexed by traced integers


def traced_once(f, call, exact, prepared) -> tuple[Program, Any]:
    """Return the program of ``prepared(f, tracing)``, and the structure of its result."""
    with Trace() as tracing:
        args, kwargs = call.arguments([tracing.input(example) for example in call.examples()])
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
            if isinstance(leaf, Handle) and type(leaf) is not Symbol:
                raise TraceError(f"{what} of a verb that has returned")
            if type(leaf) is str and "Symbol(" in leaf:
                raise TraceError(f"{what} made of a traced value, not known yet: return the number, and make the text of it")
            if not isinstance(leaf, RETURNED) and not callable(leaf):
                raise TraceError(
                    f"{what}, which is no array or number: return arrays, numbers, or tuples, lists and dicts of them (register other "
                    f"classes with optree.dataclasses)"
                )
            outputs.append(leaf)
        program = tracing.finish(outputs)
        check_handlers(tracing, program, getattr(f, "__name__", "the function"), exact)
        return program, structure


class Table(np.ndarray):
    """A plain array in all but one respect: it, and what is computed of it, may be indexed by traced integers."""

    def __getitem__(self, index):
        symbol = highest(index if type(index) is tuple else (index,), deep=True)
        return super().__getitem__(index) if symbol is None else symbol.level.lift(self)[index]

    def take(self, indices, *args, **kwargs):
        symbol = highest((indices,), deep=True)
        return super().take(indices, *args, **kwargs) if symbol is None else symbol.level.lift(self).take(indices, *args, **kwargs)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return array[()] if return_scalar else array.view(Table)

    def __array_function__(self, fn, types, args, kwargs):
        symbol = highest((*args, *kwargs.values()), deep=True)
        if symbol is not None and type(symbol) not in types:  # NumPy does not ask the indices of np.take
            given: Any = args, kwargs
            args, kwargs = optree.tree_map(lambda leaf: symbol.level.lift(leaf) if type(leaf) is Table else leaf, given)
            return fn(*args, **kwargs)
        result = super().__array_function__(fn, types, args, kwargs)
        return optree.tree_map(lambda leaf: leaf.view(Table) if type(leaf) is np.ndarray else leaf, result)


def with_symbols(f, tracing, known=None):
    """Return a function that may index arrays by traced integers that it, or one that it calls, reads from variables outside."""
    known = {} if known is None else known
    if type(f) is MethodType:
        return MethodType(with_symbols(f.__func__, tracing, known), f.__self__)
    if type(f) is Jit:  # whose function is entered into the trace
        return with_symbols(f.f, tracing, known)
    elsewhere = type(f) is FunctionType and f.__code__.co_filename.startswith(ELSEWHERE)
    if type(f) is not FunctionType or (elsewhere and (hasattr(f, "plain") or not f.__closure__)):  # primitives are known by identity
        return f
    if f in known:
        return known[f]
    space = f.__globals__ if elsewhere else dict(f.__globals__)
    cells = tuple(CellType() for _ in f.__closure__ or ())
    new = known[f] = FunctionType(f.__code__, space, f.__name__, None, cells or None)
    vars(new).update(vars(f))

    def replaced(held):
        if type(held) is np.ndarray and held.dtype.kind in "biufc" and not elsewhere:  # grad(f) and the like: f may be the user's
            return held.view(Table)
        if type(held) is Symbol and (array := held.level.program.constants.get(held.primal)) is not None:  # of the trace around this one
            return tracing.lift(array)
        return with_symbols(held, tracing, known)

    new.__defaults__ = f.__defaults__ and tuple(map(replaced, f.__defaults__))
    new.__kwdefaults__ = f.__kwdefaults__ and {name: replaced(held) for name, held in f.__kwdefaults__.items()}
    for name in () if elsewhere else mentioned(f.__code__):
        if name in space:
            space[name] = replaced(space[name])
    for cell, old in zip(cells, f.__closure__ or (), strict=True):
        with suppress(ValueError):  # not yet bound
            cell.cell_contents = replaced(old.cell_contents)
    return new
