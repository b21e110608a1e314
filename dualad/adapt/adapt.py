"""adapt: while it is active, other people's modules find versions of NumPy, SciPy and `math` that keep derivatives under their names."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from importlib.machinery import ExtensionFileLoader
from inspect import iscoroutinefunction, isgeneratorfunction
from types import FunctionType, MethodType, ModuleType
from typing import Any

from ..core.buffers import Buffer, contents
from ..core.levels import ADAPTED
from ..core.standins import StandIn, stand_in
from ..support.callers import trimmed
from ..support.forks import lock_of
from .places import Change, changes_of_function, changes_of_space, functions_of

Target = ModuleType | type | Callable[..., Any]

OURS = {"numpy", "scipy", "math", "dualad", "checkpoint"}


@trimmed
def adapt(*targets: Any) -> Any:
    """Let other people's code, unedited, keep derivatives in functions that NumPy does not dispatch.

    While it is active, stand-ins replace NumPy, SciPy and `math`, and their functions, in the modules of the targets.
    For plain arguments a stand-in returns what the original returns; traced ones keep their derivative through
    ``np.asarray``, ``np.array`` (also of lists of them), ``np.full``, ``np.ascontiguousarray``, ``np.float64(x)``, ``float(x)``, the
    functions of `math`, and all functions of `dualad.scipy`.

    Parameters
    ----------
    *targets : modules, with their submodules imported so far; classes, for the modules that define them and their bases;
        functions, for the modules that define them. Modules of the same package whose functions
        and classes these use are adapted with them.

    Returns
    -------
    for one function, the function, adapted while it runs. Otherwise a context manager, which is also a decorator: the targets are
    adapted inside of the ``with``, or while the decorated function runs. It may be entered again, and nested.

    Raises
    ------
    TypeError
        Where a target is no module, class or function; where it has no Python code (an extension module, a function of C), or is of
        NumPy, SciPy, `math` or this library.

    Examples
    --------
    >>> import statistics, dualad
    >>> with dualad.adapt(statistics):
    ...     dualad.derivative(lambda x: statistics.fmean([x, 2.0]) ** 2)(4.0)
    3.0

    Notes
    -----
    Names are rebound for all threads; calls with plain numbers give the same results. They are restored when the last
    ``with`` or call that adapts a module ends, also by an exception. Programs that `jit` compiled from adapted code stay valid.
    Functions that import NumPy, SciPy or `math` themselves get stand-ins, too, by another ``__import__`` while something is adapted.
    SciPy's own modules are never adapted: their C code would be handed traced values.
    """
    if not targets:
        raise TypeError("adapt: no targets are given: give modules, classes or functions of the code that is to keep derivatives")
    adapted = Adapted(*targets)
    return adapted(targets[0]) if len(targets) == 1 and adapted.rebound.functions else adapted


class Adapted:
    """Adapted targets; see `adapt`."""

    def __init__(self, *targets: Target) -> None:
        self.rebound = Rebound(targets)

    def __repr__(self) -> str:
        return f"adapt({', '.join(space['__name__'] for space in self.rebound.spaces)})"

    def __enter__(self) -> Adapted:
        self.rebound.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.rebound.__exit__()

    def __call__(self, func: Any) -> Any:
        rebound = self.rebound

        @wraps(func)
        def adapted(*args: Any, **kwargs: Any) -> Any:
            with rebound:
                return outside(func(*args, **kwargs))

        @wraps(func)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with rebound:
                return outside(await func(*args, **kwargs))

        @wraps(func)
        def generated(*args: Any, **kwargs: Any) -> Any:
            with rebound:
                return (yield from func(*args, **kwargs))

        return awaited if iscoroutinefunction(func) else generated if isgeneratorfunction(func) else adapted


def outside(result: Any) -> Any:
    """Return the result of an adapted function, converted for other code."""
    if type(result) is tuple:
        return tuple(map(outside, result))
    return contents(result) if type(result) is Buffer else result


class Rebound:
    """The global names, and the functions, that targets stand for; no callable, so that `jit` does not watch what it holds."""

    def __init__(self, targets: tuple[Target, ...]) -> None:
        self.spaces: list[dict[str, Any]] = []
        self.functions: list[FunctionType] = []
        for target in targets:
            self.add(target)

    def add(self, target: Any) -> None:
        name = next((name for name, module in list(sys.modules.items()) if module is target), None)
        if name is not None:  # some packages put an object in the place of their module
            self.add_module(name, name)
            for inner in [other for other in list(sys.modules) if other.startswith(f"{name}.")]:
                own = getattr(sys.modules[inner], "__name__", inner)  # some packages have NumPy under a name of theirs
                if not compiled(inner) and not is_ours(own):
                    self.add_module(inner, inner)
        elif isinstance(target, type) and (homes := homes_of(target)):
            for home in homes:
                self.add_module(home, f"the class {target.__qualname__}")
        elif functions := list(functions_of(target)):
            for function in functions:
                refuse_ours(function.__module__ or "", f"the function {function.__qualname__}")
                self.functions.append(function)
                self.add_space(function.__globals__)
        else:
            what = "is no module, class or function"
            if isinstance(target, ModuleType):
                what = "is not in sys.modules"
            elif callable(target):
                refuse_ours(getattr(target, "__module__", None) or "", f"the function {getattr(target, '__name__', target)}")
                of_python = isinstance(target.__call__, MethodType)
                what = "is an object" if of_python else "is written in C, or in no module that is imported"
            raise TypeError(f"adapt: {target!r} {what}: give a module, a class or a function written in Python")

    def add_module(self, name: str, given: str) -> None:
        refuse_ours(name, given)
        if compiled(name):
            raise TypeError(f"adapt: the module {name} is compiled and has no Python code: give its functions rules (dualad.primitive)")
        self.add_space(vars(sys.modules[name]))

    def add_space(self, space: dict[str, Any]) -> None:
        """Add a module's names, and the modules of the same package whose functions and classes it uses."""
        if any(known is space for known in self.spaces):
            return
        self.spaces.append(space)
        package = f"{space.get('__package__') or space.get('__name__', '')}".partition(".")[0] + "."
        used = {getattr(value, "__module__", None) for value in list(space.values()) if issubclass(type(value), type | FunctionType)}
        for name in sorted(name for name in used if isinstance(name, str) and name.startswith(package) and name in sys.modules):
            self.add_space(vars(sys.modules[name]))

    def __enter__(self) -> None:
        with lock_of(ACTIVE), ExitStack() as entered:
            for thing in (*self.spaces, *self.functions):
                ACTIVE.enter(thing)
                entered.callback(ACTIVE.leave, thing)
            entered.pop_all()

    def __exit__(self, *exception: object) -> None:
        with lock_of(ACTIVE):
            things = (*self.spaces, *self.functions)
            if not all(id(thing) in ACTIVE.changed for thing in things):
                raise RuntimeError("adapt: __exit__ was called without a matching __enter__: write `with dualad.adapt(...):`")
            for thing in things:
                ACTIVE.leave(thing)


def homes_of(kind: type) -> list[str]:
    """Return the modules that a class and its bases are defined in, without ours and Python's own."""
    refuse_ours(kind.__module__, f"the class {kind.__qualname__}")
    homes = [base.__module__ for base in kind.__mro__]
    return [home for home in homes if home in sys.modules and home.partition(".")[0] not in OURS | {"builtins", "abc", "typing"}]


def compiled(name: str) -> bool:
    """Return whether a module has no Python code."""
    loader = getattr(sys.modules[name], "__loader__", None)
    return isinstance(loader, ExtensionFileLoader) or name in sys.builtin_module_names


def is_ours(name: str) -> bool:
    return name.partition(".")[0] in OURS


def refuse_ours(name: str, given: str) -> None:
    if is_ours(name):
        root = name.partition(".")[0]
        way = "SciPy's functions with derivatives are in dualad.scipy" if root == "scipy" else "give the code that calls it"
        raise TypeError(f"adapt: {given if given == root else f'{given} belongs to {root}, which'} is not adapted: {way}")


class Active:
    """How often each space or function is adapted now, and what was changed for that."""

    def __init__(self) -> None:
        self.lock: Any = None
        self.changed: dict[int, tuple[list[Change], int]] = ADAPTED
        self.imports: Change | None = None

    def enter(self, thing: Any) -> None:
        if self.imports is None:
            own = builtins.__import__
            self.imports = Change(vars(builtins), "__import__", own, importing(own))
            self.imports.make()
        changes, count = self.changed.get(id(thing), ([], 0))
        self.changed[id(thing)] = changes, count + 1
        if not count:
            try:
                for change in list(changes_of_space(thing) if isinstance(thing, dict) else changes_of_function(thing)):
                    changes.append(change)
                    change.make()
            except BaseException:
                self.leave(thing)
                raise

    def leave(self, thing: Any) -> None:
        changes, count = self.changed.pop(id(thing))
        if count > 1:
            self.changed[id(thing)] = changes, count - 1
            return
        for change in changes:
            change.undo()
        if isinstance(thing, dict):
            for name in [name for name, value in thing.items() if type(value) is StandIn]:  # a function imported it, as a global name
                thing[name] = vars(thing[name])["__adapted__"]
        if not self.changed and self.imports is not None:
            self.imports.undo()
            self.imports = None


def importing(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return the stand-in for ``__import__``: functions of adapted modules that import NumPy, SciPy or `math` get stand-ins."""

    def imported(name: str, globals: Any = None, *args: Any, **kwargs: Any) -> Any:
        module = own(name, globals, *args, **kwargs)
        return stand_in(module) if id(globals) in ACTIVE.changed else module

    return imported


ACTIVE = Active()
