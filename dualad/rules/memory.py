"""Copies that keep the memory layout: the order and direction of the axes, and where they have gaps.

Whether `ravel` and `reshape` give a view or a copy depends on it, and with that what a later write reaches. So a copy that is made
for our own reasons (to hold a value, to write into it) must not have another layout than the array that plain NumPy has there.
"""

import math

import numpy as np

from .kinds import constant, linear
from .primitives import PLAIN, primitive


@primitive
def copied(x):
    """Return a copy of an array in its memory layout; large gaps become smaller, an axis without extent stays one."""
    x = x if type(x) is np.ndarray else np.asarray(x)
    once = None if x.flags.forc else one_of_each(x)
    return copied_to_write(x) if once is None else np.broadcast_to(copied(x[once]), x.shape)


def copied_to_write(x):
    """Return a copy of a plain array, as `copied` does, whose elements can be written one by one."""
    flags = x.flags
    if flags.aligned and (flags.forc or one_of_each(x) is not None):
        return x.copy("K")
    copy = empty_as(x)
    copy[...] = x
    return copy


def own_to_write(x):
    """Return a copy of what a traced array holds, to write into, where NumPy allows it."""
    if type(x) is not np.ndarray:
        return copied(x)
    if not x.flags.writeable and one_of_each(x) is not None:
        raise ValueError("assignment destination is read-only")  # what NumPy broadcast
    return copied_to_write(x)


def one_of_each(x):
    """Return an index of the first element along each axis that repeats one element; None where no axis does."""
    if 0 not in x.strides:
        return None
    once = tuple(slice(0, 1) if stride == 0 and n > 1 else slice(None) for n, stride in zip(x.shape, x.strides, strict=True))
    return once if slice(0, 1) in once else None


def empty_as(model, directions=None):
    """Return an array to write into, of the shape, dtype and memory layout of `model`; with `directions`, as many, on a leading axis.

    Of an array that is not aligned it is not either: NumPy hands such arrays to BLAS by other ways, which differ in the last bits.
    """
    dtype = model.dtype
    if model.flags.carray:
        return np.empty(model.shape if directions is None else (directions, *model.shape), dtype)
    steps, span = compressed(model)
    if steps is None:
        return np.empty_like(model, dtype, subok=False) if directions is None else np.empty((directions, *model.shape), dtype)
    lead = () if directions is None else (directions,)
    first = sum((n - 1) * -step for n, step in zip(model.shape, steps, strict=True) if step < 0)
    strides = [step * dtype.itemsize for step in (*(span,) * len(lead), *steps)]
    aligned = model.flags.aligned
    memory = np.empty((*lead, span), dtype) if aligned else np.empty(math.prod(lead) * span * dtype.itemsize + 1, np.uint8)
    return np.ndarray(lead + model.shape, dtype, memory, first * dtype.itemsize + (not aligned), strides)


def compressed(model):
    """Return the steps of the axes, in elements, and what they span, with gaps in an array's memory made as small as they can be for
    slices of the axes to be reshaped without a copy just where they could be; None for elements that share memory, which cannot be
    written one by one."""
    shape, strides = model.shape, model.strides
    unit = reach = model.itemsize  # the stride of the axis before, here and in the copy; axes without a gap between them are one
    step, count, span, steps = 1, 1, 1, [1] * len(shape)
    if model.size:
        for i in sorted((i for i, n in enumerate(shape) if n > 1), key=lambda i: abs(strides[i])):
            stride = abs(strides[i])
            if stride < reach:
                return None, 0
            if stride == count * unit:
                steps[i], count = count * step, count * shape[i]
            else:
                near = stride <= 2 * (count - 1) * unit and stride * step % unit == 0  # [::k] may close such a gap
                unit, step, count = stride, stride * step // unit if near else 2 * count * step, shape[i]
                steps[i] = step
            span += (shape[i] - 1) * steps[i]
            reach += (shape[i] - 1) * stride
            if strides[i] < 0:
                steps[i] = -steps[i]
    return steps, span


def writable(buffer, v):
    """Return a buffer that `v` can be written into: a plain one is lifted to v's level if v is traced."""
    if type(v) in PLAIN or not hasattr(type(v), "__dualad_apply__") or hasattr(type(buffer), "__dualad_apply__"):
        return buffer
    if not hasattr(v, "_lifted"):  # an array that adapted code made, in which nothing may be traced
        return writable(buffer, copied(v))
    return v._lifted(buffer, v.level)


def shows_memory(ans, x):
    """Return whether `ans` is a view of the memory of `x`."""
    if type(ans) is np.ndarray:
        base = ans.base
        return ans is x or (base is not None and type(x) is np.ndarray and (base is x or base is x.base or np.may_share_memory(ans, x)))
    return hasattr(type(ans), "__dualad_apply__") and hasattr(type(x), "__dualad_apply__") and ans._shows(x)


@primitive
def axes_and_order(x, order):
    """Return the order of the elements that 'A' and 'K' mean for a plain array: what of `x` to transpose, and 'C' or 'F'."""
    if type(x) is not np.ndarray:
        return None, "C"
    if order == "A":
        return None, "F" if x.flags.fnc else "C"
    if order == "K" and not x.flags.c_contiguous:
        if x.flags.f_contiguous:
            return None, "F"
        kept = np.positive(x).strides  # in the order of axes that NumPy goes through
        return tuple(sorted(range(x.ndim), key=lambda i: -kept[i])), "C"
    return None, "C"


@primitive
def in_order(x, order):
    """Return `x`, or a copy of it, with its elements in order "C" or "F"."""
    if type(x) is not np.ndarray or (x.flags.f_contiguous if order == "F" else x.flags.c_contiguous):
        return x
    return x.copy(order)


@primitive
def as_plain_array(x):
    """Return an array as it is, and a number as an array of no axes."""
    return np.asarray(x)


# fmt: off
linear(copied,         lambda g, x: g, moves=True, elementwise=True)
linear(in_order,       lambda g, x, order: g, moves=True, elementwise=True)
linear(as_plain_array, lambda g, x: g, view="maybe", moves=True, elementwise=True)
constant(axes_and_order, metadata=True)
# fmt: on
