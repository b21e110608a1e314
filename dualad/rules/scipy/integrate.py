"""``scipy.integrate``: the rules that integrate samples."""

from __future__ import annotations

import numpy as np
from scipy import integrate as si

from ..kinds import shape_of
from .entering import by_body

__all__ = ["FUNCTIONS"]


def steps_of(y, x, dx, axis):
    """Return the distances of samples, so that they broadcast with differences of `y` along its last axis."""
    if x is None:
        return dx
    gaps = np.diff(x, axis=-1 if np.ndim(x) == 1 else axis)
    return gaps if np.ndim(x) == 1 else np.moveaxis(gaps, axis, -1)


def trapezoid_body(y, x=None, dx=1.0, axis=-1):
    rows = np.moveaxis(y, axis, -1)
    return np.sum(0.5 * (rows[..., 1:] + rows[..., :-1]) * steps_of(y, x, dx, axis), axis=-1)


def cumulative_trapezoid_body(y, x=None, dx=1.0, axis=-1, initial=None):
    rows = np.moveaxis(y, axis, -1)
    sums = np.cumsum(0.5 * (rows[..., 1:] + rows[..., :-1]) * steps_of(y, x, dx, axis), axis=-1)
    if initial is not None:
        sums = np.concatenate([np.zeros((*shape_of(sums)[:-1], 1)), sums], axis=-1)
    return np.moveaxis(sums, -1, axis)


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
    "trapezoid": trapezoid_body,
    "cumulative_trapezoid": cumulative_trapezoid_body,
    "simpson": weighing(si.simpson),
    "romb": weighing(si.romb),
    "cumulative_simpson": weighing(si.cumulative_simpson),
}
FUNCTIONS = {name: by_body(getattr(si, name), body, f"scipy.integrate.{name}") for name, body in BODIES.items()}
