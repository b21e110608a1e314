"""``scipy.integrate``: the rules that integrate samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import integrate as si

from ..calculus import trapezoid, trapezoids
from ..kinds import ndim_of, shape_of
from .entering import by_body

__all__ = ["FUNCTIONS"]


def behind(sums, axis, initial):
    """Return running sums with an initial value before them."""
    first = np.zeros([1 if k == axis % ndim_of(sums) else n for k, n in enumerate(shape_of(sums))]) + initial
    return np.concatenate([first, sums], axis=axis)


def cumulative_trapezoid(y, x=None, dx=1.0, axis=-1, initial=None):
    sums = np.cumsum(trapezoids(y, x, dx, axis), axis=axis)
    return sums if initial is None else behind(sums, axis, 0.0)


def weighed(fn, y, axis, x=None, **options):
    """Return what a rule with weights gives: they are what it makes of the unit samples, at plain positions."""
    if x is not None:
        if np.ndim(x) > 1:
            raise NotImplementedError(f"scipy.integrate.{fn.__name__} has no derivative where x has several axes: give x of one axis")
        options["x"] = x
    weights = np.asarray(fn(np.eye(shape_of(y)[axis]), axis=-1, **options))
    made = np.tensordot(np.moveaxis(y, axis, -1), weights, axes=(-1, 0))
    return made if weights.ndim == 1 else np.moveaxis(made, -1, axis)


def cumulative_simpson(y, *, x=None, dx=1.0, axis=-1, initial=None):
    sums = weighed(si.cumulative_simpson, y, axis, x, dx=dx)
    return sums if initial is None else behind(sums + initial, axis, initial)


BODIES: dict[str, Any] = {
    "trapezoid": trapezoid,
    "cumulative_trapezoid": cumulative_trapezoid,
    "simpson": lambda y, x=None, *, dx=1.0, axis=-1: weighed(si.simpson, y, axis, x, dx=dx),
    "romb": lambda y, dx=1.0, axis=-1: weighed(si.romb, y, axis, dx=dx),
    "cumulative_simpson": cumulative_simpson,
}
FUNCTIONS = {name: by_body(getattr(si, name), body, f"scipy.integrate.{name}") for name, body in BODIES.items()}
