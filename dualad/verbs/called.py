"""Functions of functions in compiled programs: traced values in closures of an integrand, or a searched function, are arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..core.levels import LIVE
from ..core.traced import Traced
from ..forward.seeding import with_arguments
from ..graph.program import key_of
from ..jit.reads import installed, mentioned
from ..jit.tables import closed_over
from ..rules.cotangents import is_symbolic
from ..rules.kinds import Differentiable, primitive
from ..rules.rows import register
from .derivative import jvp
from .jacobian import jacobian

#: what programs call: with equal keys they are one object, by which two traces of a function are known to be the same
MADE: WeakValueDictionary[Any, Any] = WeakValueDictionary()


def interned(made, *key):
    """Return the object made before of this kind and with this key, if a program holds it, else this one."""
    return MADE.setdefault((type(made), *key), made)


def identity(x, around=()):
    """Return a key of an argument; functions and objects that are made anew at each call are told apart by their code and what they hold.

    `around` are the identities of what holds it.
    """
    if type(x) is not FunctionType:  # one that wraps another has code of its own
        x = getattr(x, "__wrapped__", x)
    if isinstance(x, Traced):
        return Traced
    if id(x) in around:
        return "around", around.index(id(x))

    def each(*parts):
        return [identity(part, (*around, id(x))) for part in parts]

    kind = type(x)
    if isinstance(x, tuple | list):
        return kind, *each(*x)
    if kind is dict:
        return kind, *x, *each(*x.values())
    if kind is partial:
        return kind, *each(x.func, x.args, x.keywords)
    if kind is MethodType:
        return kind, *each(x.__func__, x.__self__)
    if kind is FunctionType:
        held = [cell.cell_contents for cell in x.__closure__ or ()]
        named = [vars(x)[name] for name in mentioned(x.__code__) if name in vars(x)]
        return x.__code__, id(x.__globals__), *each(x.__defaults__, x.__kwdefaults__, *held, *named)
    users = hasattr(x, "__dict__") and not isinstance(x, type | ModuleType) and not installed(sys.modules.get(kind.__module__))
    return (kind, *each(vars(x))) if users else key_of(x)


def traced_arguments(given):
    """Return the traced values that arguments hold, what makes arguments of other values, and a key of these; None unless a program is
    traced whose values they are."""
    if not any(level.abstract for level in tuple(LIVE)):
        return None
    values, made = closed_over(given, live=True)
    return (values, made, identity(given)) if any(map(is_symbolic, values)) else None


@primitive
def called(fn: Callable, *leaves: Any) -> Any:
    """Return ``fn(*leaves)``, with derivatives by forward mode; a program calls it."""
    return fn(*leaves)


@dataclass(frozen=True)
class Pushed:
    """The JVP of a function by the arguments at some positions: a function of all arguments, and of their tangents."""

    fn: Callable
    moving: tuple[int, ...]

    def __call__(self, *given: Any) -> Any:
        count = len(given) - len(self.moving)
        leaves, tangents = given[:count], given[count:]
        of_moving = with_arguments(self.fn, leaves, {}, self.moving)
        return jvp(of_moving, tuple(leaves[i] for i in self.moving), tangents)[1]


@dataclass(frozen=True)
class Pulled:
    """The VJP of a function by one argument: a function of the cotangent and of all arguments."""

    fn: Callable
    i: int

    def __call__(self, g: Any, *leaves: Any) -> Any:
        slope = jacobian(self.fn, self.i)(*leaves)
        return np.tensordot(g, slope, axes=np.ndim(g))


class Called(Differentiable):
    """The row of `called`."""

    def arrays(self, args):
        return range(1, len(args))

    def jvp(self, ans, args, kwargs, tangents):
        fn, *leaves = args
        moving = tuple(i for i, t in enumerate(tangents[1:]) if t is not None)
        return called(interned(Pushed(fn, moving), fn, moving), *leaves, *(tangents[1 + i] for i in moving))

    def vjp(self, i, g, ans, args, kwargs):
        fn, *leaves = args
        return called(interned(Pulled(fn, i - 1), fn, i - 1), g, *leaves)


register(Called(called, (), (), batch=False, called="it calls a function of Python"))
