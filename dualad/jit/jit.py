"""jit: compile a function of plain NumPy code, one program for each kind of arguments."""

from __future__ import annotations

import sys
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import update_wrapper
from threading import get_ident
from types import MethodType
from typing import Any, Generic, Unpack, overload

import numpy as np
import optree

from ..core.levels import errors_as_in
from ..forward.seeding import check_function
from ..graph.handled import Handled, own
from ..graph.trace import BY_VALUE, TraceError, where_in
from ..rules.calling import signature
from ..support.callers import trim
from ..support.costs import KEPT_VARIANTS
from ..support.forks import lock_of
from ..support.hints import JitOptions, Rest, Result
from .arguments import Call, names_keywords
from .compiled import BACKENDS, without_llvm
from .guards import MISS, guard_of
from .members import Mapped
from .tables import Wrapper
from .tracing import Entry, trace
from .verify import EVALUATING, difference, evaluating, plain_results, same_results, stale


@overload
def jit(f: None = None, **options: Unpack[JitOptions]) -> Callable[[Callable[Rest, Result]], Jit[Rest, Result]]: ...
@overload
def jit(f: Callable[Rest, Result], **options: Unpack[JitOptions]) -> Jit[Rest, Result]: ...
def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    backend: str | None = None,
    cache_size: int = 64,
    threads: int | None = None,
    verify: bool | None = None,
    paths: int = 16,
) -> Any:
    """Compile a function: its operations are traced once for each kind of arguments, optimised, and run as one program.

    Parameters
    ----------
    f : function of arrays and numbers, or pytrees of them, in plain NumPy. It returns the same. It may be called inside of any verb
        of `dualad` and `checkpoint`, and may call them: ``jit(grad(f))``, ``grad(jit(f))``, jit in jit.
    static_argnums, static_argnames : positions (an int or several) and names (a text or several) of arguments that are compiled in:
        lengths, iteration counts, options. They must be hashable. Booleans, strings, None and functions are always static.
    backend : "llvm", machine code of loops, or "numpy", straight-line NumPy code. By default "llvm" where llvmlite is installed.
    threads : over how many threads large loops are split, in blocks of rows that depend on the shapes alone: the bits are the same for
        every number of threads. By default one, without blocks (sums of many terms then differ in last bits). With "llvm" only.
        Loops over 65,536 elements or more are shared, also in the steps of a `chain`, and the members of `map`. The other threads wait in
        compiled code while it runs.
    verify : whether results are compared with those of the plain function, to find changes of outside values that are not
        checked. By default at calls 2, 4, 8, 16, ... of each program, postponed until comparisons take less than 1 % of the time since the
        first trace; True: at every call, False: never.
    cache_size : how many programs are kept; the one not used for longest is dropped.
    paths : how many paths of a function that branches on values (``if``, ``while``, ``and``, ``max``, and for each integer that
        ``int``, ``range`` and lists need) are compiled, for each kind of arguments. Each is traced when a call first takes it. Numbers of
        iterations of a loop are no separate paths, if there are more than 4. Calls on other paths are evaluated by the plain function,
        with one warning.

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
        At a call, where the function cannot be traced: it needs a shape that depends on data, computes with random numbers or a clock.
        The message names the line and the way out.
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
    of more than 5000 elements, one of the length). Other changes show in the results, see `verify`; a function that writes
    outside, prints or logs is not compared. Printing and other effects happen while tracing, twice; where `f` branches, calls on a
    path that prints, logs, warns or writes outside are evaluated by the plain function. No floating-point warnings are given. With
    "llvm", Python floats divide and are raised to powers as NumPy's: ``1.0 / 0.0`` is inf, and a root of a negative number NaN.
    """
    if f is None:
        options: JitOptions = {"static_argnums": static_argnums, "static_argnames": static_argnames, "backend": backend}
        options |= {"cache_size": cache_size, "threads": threads, "verify": verify, "paths": paths}
        return lambda f: jit(f, **options)
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
    if type(paths) is not int or paths < 1:
        raise ValueError(f"jit: paths is {paths!r}: give the number of paths to compile, 1 or more")
    numbers, names = (
        several(static_argnums, int | np.integer, "static_argnums", "positions"),
        several(static_argnames, str, "static_argnames", "names"),
    )
    for name in names:
        if name not in signature(f).parameters and not names_keywords(f):
            raise ValueError(f"jit: static_argnames names {name!r}, which is no parameter of {getattr(f, '__name__', f)}")
    return Jit(f, numbers, names, backend, cache_size, threads, verify, paths)


def several(given, kind, argument, what):
    """Return one or several positions or names as a tuple."""
    values = (given,) if issubclass(type(given), int | str) or not isinstance(given, Iterable) else tuple(given)
    if not all(isinstance(value, kind) and type(value) is not bool for value in values):
        raise TypeError(f"jit: {argument} is {given!r}: give {what} of arguments, one or several")
    return values


class Jit(Wrapper, Mapped, Generic[Rest, Result]):
    """A compiled function; see `jit`."""

    def __init__(self, f, *options):
        update_wrapper(self, f)
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        self.f, self.options = f, options
        self.static_argnums, self.static_argnames, self.backend, self.cache_size, self.threads, self.verify, self.paths = options
        self.lock: Any = None  # for new paths
        self.warned: set[str] = set()
        self.traces = self.verifications = 0
        self.effect: str | None = None  # that was seen when the plain function was called
        self.began = self.spent = 0.0  # when the first trace was, and the time of comparisons
        self.entries: OrderedDict[object, Entry] = OrderedDict()
        self.plain: set[object] = set()  # the keys of calls that the plain function evaluates
        self.guards: tuple = ()  # of the programs made last
        self.flat_guards: tuple = ()
        self.methods: dict[int, Jit] = {}  # by the ids of instances, which they hold

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
            if not any(entry.deep for entry in self.entries.values()):
                return self.plainly(args, kwargs, error)
        if EVALUATING and get_ident() in EVALUATING:
            return self.plainly(args, kwargs)
        context, entry = copy_context(), None
        try:
            call = Call(self, args, kwargs)
            if call.abstract:
                return self.f(*args, **kwargs)
            if call.key in self.plain:
                return self.plainly(args, kwargs)
            try:
                entry = self.first_entry(call, args, kwargs)
                found = entry.result(entry.compiled(*call.leaves))
                if found is None:
                    entry, found, failed = self.on_new_path(entry, call)
                    if found is None:
                        if isinstance(failed, TraceError):  # before a loop that may never end
                            self.warn(failed)
                        result = self.plainly(args, kwargs)  # or what the function raises
                        self.warn(failed)
                        return result
                structure, outs = found
                if outs is None:
                    return self.plainly(args, kwargs)
                if entry.checks.due():
                    right, outs = self.compared(entry, call, call.examples(), outs, structure=structure)
                    if right is not entry:
                        entry, structure = right, right.structure
                        entry.checks.due()
            except (Handled, *BY_VALUE) as error:
                if entry is not None and entry.deep:
                    self.on_error(entry, call)
                return self.plainly(args, kwargs, error)
            except TraceError as error:
                if not error.many:
                    raise
                self.plain.add(call.key)
                self.warn(error)
                return self.plainly(args, kwargs)
            if not (call.traced or entry.checks.always or entry.compiled.waits):
                self.guard(entry, call, args, kwargs)
        except Exception as error:
            trim(error)
            raise
        except BaseException:
            errors_as_in(context)
            raise
        return optree.tree_unflatten(structure, outs)  # type: ignore[return-value]

    def plainly(self, args, kwargs, raised=None):
        """Return what the plain function gives, which shares no memory with arguments; where it raises what was `raised`, raise that."""
        given: Any = args, kwargs
        args, kwargs = optree.tree_map(own, given)
        try:
            return optree.tree_map(own, self.f(*args, **kwargs))
        except Exception as error:
            if raised is None or not isinstance(error, type(raised)):
                raise
            raise raised from None

    def on_new_path(self, entry, call):
        """Return an entry that knows the path of a call, and its results; where only the plain function gives them, None, and why."""
        try:
            with lock_of(self):
                entry = self.entries.get(call.key, entry)  # another thread may have met it
                found = entry.result(entry.compiled(*call.leaves))
                if found is None:
                    entry = self.extended(entry, call, call.examples())
                    found = entry.result(entry.compiled(*call.leaves))
        except Exception as error:  # which may be the function's own
            return entry, None, error
        return entry, found, None

    def on_error(self, entry, call):
        """Trace the path of a call, which a deep program may have left before it raised."""
        try:
            with lock_of(self):
                self.extended(entry, call, call.examples())
        except Exception:  # it is the path's own
            entry.failed += 1

    def warn(self, failed):
        """Warn, once, that calls on some path are evaluated by the plain function."""
        if failed is not None and str(failed) not in self.warned:
            self.warned.add(str(failed))
            what = f"{str(failed).removeprefix('jit: ')}. Calls of {self.__name__} on this path are evaluated by the plain function"
            warnings.warn(f"jit: {what}", stacklevel=3)

    def extended(self, entry, call, examples):
        """Return an entry that knows the path of these examples of the leaves of a call, besides those that an entry knows: that one if
        this is one of them."""
        if entry.count + entry.failed >= self.paths:
            (line, _), *_ = Counter(test.line for test in entry.tests).most_common(1)
            raise TraceError(
                f"jit: {where_in(line)}{self.__name__} takes more than {self.paths} paths: choose with np.where, index arrays with "
                f"x.astype(int), make a long loop a chain(until=...), or allow more, paths={2 * self.paths}"
            )
        try:
            new = trace(self, call, examples, entry)
        except TraceError:
            entry.failed += 1
            raise
        if new is not entry:
            new.failed = entry.failed + (new.known <= entry.known)
            self.entries[call.key] = new
            self.guards = self.flat_guards = ()
        return new

    def compared(self, entry, call, leaves, outs, evaluate=lambda compiled, call: compiled(*call.leaves), depth=3, structure=None):
        """Return an entry and its results: those given, or where the plain function shows that the program is stale, new ones."""
        where = failed = None
        structure = entry.structure if structure is None else structure
        try:
            with entry.checks.measured():
                where = difference(structure, outs, *plain_results(self.f, call, leaves))
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
            new.compiled.waits = entry.compiled.waits  # NumPy's bits are compared with NumPy's
            (structure, before), (other, after) = (one.result(evaluate(one.compiled, call)) for one in (entry, new))
        except Exception as error:
            self.cache_clear()
            raise error from failed
        if structure == other and same_results(before, after):
            if not entry.checks.always:
                entry.checks.stop("it raises there" if failed else f"{where} differs, by last digits that it magnifies")
            return entry, outs
        self.cache_clear()
        self.entries[call.key] = new
        warnings.warn(stale(self.__name__, structure, before, after, other), stacklevel=depth)
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
        if not (call.abstract or call.traced or self.verify is True) and self.is_plain(call.key):
            guard = guard_of(call, args, kwargs, self.entries[call.key], flat=True)
            self.flat_guards = (guard, *self.flat_guards[: KEPT_VARIANTS - 1]) if guard is not None else self.flat_guards
            if into is not None and into.dtype == results.dtype and into.shape == results.shape:
                into[...] = results
                return into
        return results

    def is_plain(self, key):
        """Return whether the program for a call gives a result, of one type."""
        entry = self.entries.get(key)
        return entry is not None and not (entry.left or entry.several or entry.compiled.waits)

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
        return type(self), (self.f, *self.options)

    def __get__(self, instance, owner=None):
        """Return the compiled method of an instance, which is static: what its attributes hold is checked at each call."""
        if instance is None:
            return self
        known = self.methods.get(id(instance))
        if known is None:
            while len(self.methods) >= self.cache_size:
                self.methods.pop(next(iter(self.methods), 0), None)
            numbers = tuple(i - 1 for i in self.static_argnums if i > 0)
            known = self.methods[id(instance)] = Jit(MethodType(self.f, instance), numbers, *self.options[1:])
        return known

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

    def first_entry(self, call, args, kwargs):
        """Return the entry for a call; where the function raises an error of its own, it is that of the plain function."""
        try:
            return self.entry(call)
        except Exception as error:
            if getattr(error, "looked", not isinstance(error, BY_VALUE)):
                self.plainly(args, kwargs)
            raise

    def cache_clear(self):
        """Forget all programs."""
        self.entries.clear()
        self.plain.clear()
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
        traced = sum(len(path.program.operations) for path in entry.paths)
        text = f"{compiled.__name__}: {traced} operations traced, {len(compiled.program.operations)} left; {compiled.executable.notes}"
        text += f", because {missing}" if missing else ""
        if entry.tests:
            lines = dict.fromkeys(where_in(test.line).rstrip(": ") for test in entry.tests)
            count = entry.count
            text += f"; {count} path{'s' * (count > 1)} by the tests in {', '.join(lines)}"
            text += ", others are traced when they are met" if entry.left else ""
            text += "".join(f"; evaluated by the plain function where {loud}" for loud in entry.loud)
        reruns = "".join(f"; NumPy made {n} call{'s' * (n > 1)} after {kind}: {last}" for kind, n, last in compiled.reruns())
        return text + reruns + (f"; not compared with the plain function: {reason}" if reason else "")
