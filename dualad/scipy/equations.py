"""``scipy.integrate`` with its solvers of differential equations: where something is traced, those of `checkpoint`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any

import optree
from scipy import integrate as si

from ..core.dispatch import highest
from ..jit.tables import closed_over
from ..rules.calling import bind
from ..rules.scipy import integrate as rules
from . import quadrature


def with_derivatives(scipys: Callable) -> Callable:
    """Return a solver that is SciPy's unless an argument, or what a function closes over, is traced."""
    parameters = signature(scipys)

    @wraps(scipys)
    def solver(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = optree.tree_leaves((args, kwargs))  # type: ignore[arg-type]
        if highest(leaves, deep=True) is None and not closed_over(tuple(filter(callable, leaves)))[0]:
            return scipys(*args, **kwargs)
        given = bind(f"scipy.integrate.{scipys.__name__}", parameters, args, kwargs).arguments
        given |= given.pop("options", {})
        return getattr(import_module("checkpoint"), scipys.__name__)(**given)  # imported now: it is built on top of this library

    solver.__module__ = "scipy.integrate"
    return solver


FUNCTIONS = rules.FUNCTIONS | quadrature.FUNCTIONS | {solver.__name__: with_derivatives(solver) for solver in (si.solve_ivp, si.odeint)}
