"""``scipy.integrate``: the rules that integrate samples."""

from __future__ import annotations

import numpy as np
from scipy import integrate as si

from ..calculus import trapezoid, trapezoids
from ..kinds import shape_of
from .entering import by_body

__all__ = ["FUNCTIONS"]


def cumulative_trapezoid(y, x=None, dx=1.0, axis=-1, initial=None):
    sums = np.cumsum(trapezoids(y, x, dx, axis), axis=axis)
    if initial is None:
        return sums
    first = np.zeros([1 if k == axis % np.ndim(y) else n for k, n in enumerate(shape_of(sums))])
    return np.concatenate([first, sums], axis=axis)


def weighing(fn):
    """Return the body of a rule with weights: they are what it makes of the unit samples, at plain positions."""

    def body(y, *args, axis=-1, **kwargs):
        x = kwargs.get("x")
        if x is not None and np.ndim(x) > 1:
            raise NotImplementedError(f"scipy.integrate.{fn.__name__} has no derivative where x has several axes: give x of one axis")
        size = shape_of(y)[axis]
        weights = np.asarray(fn(np.eye(size), *args, axis=-1, **kwargs))
        made = np.tensordot(np.moveaxis(y, axis, -1), weights, axes=(-1, 0))
        return made if weights.ndim == 1 else np.moveaxis(made, -1, axis)

    return body


BODIES = {
    "trapezoid": trapezoid,
    "cumulative_trapezoid": cumulative_trapezoid,
    "simpson": weighing(si.simpson),
    "romb": weighing(si.romb),
    "cumulative_simpson": weighing(si.cumulative_simpson),
}
FUNCTIONS = {name: by_body(getattr(si, name), body, f"scipy.integrate.{name}") for name, body in BODIES.items()}
