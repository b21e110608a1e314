"""How functions act on arguments with a leading axis of K directions: one form a function, no derivatives here.

A form takes ``(fn, args, kwargs, batched)``: the arguments at the positions `batched` are arrays with one more leading axis
than the function would see; the result has that leading axis too. A form may give up by returning NotImplemented; a
function without a form is looped over the K directions, which is right but slower. A row names its function's form (`batch=`), or the
form follows from what else the row says (`derived_form`).
"""

from math import prod

from ..support.costs import LIBRARY_PRODUCTS
from .calling import signature
from .cotangents import any_traced
from .names import np


def aligned(t, ndim):
    """Return `t` of shape (K, *s) with axes of length 1 after the first, so that it broadcasts to `ndim` axes behind K."""
    missing = ndim + 1 - np.ndim(t)
    return np.reshape(t, (t.shape[0], *(1,) * missing, *t.shape[1:])) if missing > 0 else t


def align_all(args, batched):
    ndim = max(np.ndim(arg) - (i in batched) for i, arg in enumerate(args))
    return [aligned(arg, ndim) if i in batched else arg for i, arg in enumerate(args)]


def elementwise_form(fn, args, kwargs, batched):
    """Evaluate a broadcasting function."""
    return fn(*align_all(args, batched), **kwargs)


def behind(axis):
    """Return an axis (or a tuple of them) as one of the array with K in front."""
    if isinstance(axis, tuple | list) or getattr(axis, "ndim", False):
        return tuple(map(behind, axis))
    return axis + 1 if axis >= 0 else axis


def over_axes(*names, flatten=False):
    """Make the form of a function of one array with axis arguments called `names`; None means all axes."""

    def form(fn, args, kwargs, batched):
        if batched != {0}:
            return NotImplemented
        bound = signature(fn).bind(*args, **kwargs)
        bound.apply_defaults()
        (_, x), *rest = bound.arguments.items()
        call = dict(rest)
        ndim = np.ndim(x) - 1
        if not ndim and any(call[name] is not None for name in names):
            return NotImplemented  # NumPy takes an axis of a number, too
        for name in names:
            if call[name] is not None and ndim:
                call[name] = behind(call[name])
            elif flatten:
                x, call[name] = np.reshape(x, (x.shape[0], -1)), 1
            else:
                call[name] = tuple(range(1, ndim + 1))
        return fn(x, **{key: value for key, value in call.items() if value is not np._NoValue and not (value is None and key not in names)})

    return form


def natural(fn, args, kwargs, batched):
    """Evaluate a function that looks at the last axes only."""
    return fn(*args, **kwargs) if batched == {0} else NotImplemented


def last_two(fn, args, kwargs, batched):
    """Evaluate a function of matrices that takes stacks of them."""
    return fn(*args, **kwargs) if batched == {0} and np.ndim(args[0]) > 2 else NotImplemented


def shape_without_values(fn, shape, rest, kwargs):
    """Return the shape of what a function gives for an array of a shape: it gets zeros that take no memory, or the number 0.0."""
    return np.shape(fn(np.broadcast_to(0.0, shape)[()], *rest, **kwargs))


def reshape_form(fn, args, kwargs, batched):
    """Evaluate a function that keeps its elements in their order: a reshape, or one that adds or leaves out axes of length 1."""
    x, *rest = args
    shape = shape_without_values(fn, x.shape[1:], rest, kwargs)
    if any(type(option) is str and option == "F" for option in (*rest, *kwargs.values())):
        return np.moveaxis(np.reshape(np.moveaxis(x, 0, -1), (*shape, x.shape[0]), order="F"), -1, 0)
    return np.reshape(x, (x.shape[0], *shape))


def permuted_form(fn, args, kwargs, batched):
    """Evaluate a function that permutes axes: it permutes those of a stand-in, whose lengths are their numbers behind K."""
    x, *rest = args
    axes = shape_without_values(fn, range(1, np.ndim(x)), rest, kwargs)
    return np.transpose(x, (0, *axes))


def broadcast_to_form(fn, args, kwargs, batched):
    x, *rest = args
    shape = shape_without_values(fn, x.shape[1:], rest, kwargs)
    return np.broadcast_to(aligned(x, len(shape)), (x.shape[0], *shape))


def joined_form(fn, args, kwargs, batched):
    """Evaluate a canonical ``concatenate`` or ``stack``, whose positional arguments are all arrays."""
    count = next(args[i].shape[0] for i in batched)
    arrays = [arg if i in batched else np.broadcast_to(arg, (count, *np.shape(arg))) for i, arg in enumerate(args)]
    axis = kwargs.get("axis", 0)
    if axis is None:
        arrays, axis = [np.reshape(a, (count, -1)) for a in arrays], 0
    return fn(*arrays, **{**kwargs, "axis": behind(axis)})


def tile_form(fn, args, kwargs, batched):
    x, *rest = args
    reps = shape_without_values(fn, (1,) * (np.ndim(x) - 1), rest, kwargs)
    return fn(aligned(x, len(reps)), (1, *reps))


def outer_form(fn, args, kwargs, batched):
    a, b = (np.reshape(x, (x.shape[0], -1) if i in batched else -1) for i, x in enumerate(args))
    return a[..., :, None] * b[..., None, :]


def matmul_form(fn, args, kwargs, batched):
    """Multiply; what meets one vector or matrix K times is one product of matrices, which reads that once."""
    if len(batched) == 2 or kwargs:
        return NotImplemented
    a, b = args
    a_ndim, b_ndim = (np.ndim(x) - (i in batched) for i, x in enumerate(args))
    if 1 in batched and b_ndim == 1:
        *rows, n = np.shape(a)
        if a_ndim <= 2:
            return np.matmul(b, np.transpose(a))
        return np.reshape(np.matmul(b, np.transpose(np.reshape(a, (prod(rows), n)))), (b.shape[0], *rows))
    if 0 in batched and b_ndim <= 2:
        if a_ndim == 1:
            return np.matmul(a, b)
        *rows, n = a.shape
        return np.reshape(np.matmul(np.reshape(a, (prod(rows), n)), b), (*rows, *np.shape(b)[1:]))
    if a_ndim == 1:
        return np.moveaxis(np.matmul(a, b), -2, 0) if 0 in batched else np.matmul(a, b)
    rank = max(a_ndim, b_ndim)
    return np.matmul(aligned(a, rank), b) if 0 in batched else np.matmul(a, aligned(b, rank))


def dot_form(fn, args, kwargs, batched):
    if len(batched) == 2 or kwargs:
        return NotImplemented
    a_ndim, b_ndim = (np.ndim(x) - (i in batched) for i, x in enumerate(args))
    if not a_ndim or not b_ndim:
        return elementwise_form(np.multiply, args, kwargs, batched)
    if b_ndim <= 2:
        return matmul_form(np.matmul, args, kwargs, batched)
    a, b = args
    ans = np.tensordot(a, b, (np.ndim(a) - 1, np.ndim(b) - 2))
    return np.moveaxis(ans, a_ndim - 1, 0) if 1 in batched else ans


def einsum_form(fn, args, kwargs, batched):
    """Evaluate a canonical einsum, ``einsum(*operands, subscripts=...)``, with one more letter for K."""
    subscripts = kwargs["subscripts"]
    letter = next(c for c in "KZYXWVUTSRQPONMLJIHGFEDCBAkzyxwvutsrqponmljihgfedcba" if c not in subscripts)
    inputs, output = subscripts.split("->")
    terms = [letter + term if i in batched else term for i, term in enumerate(inputs.split(","))]
    if len(args) == 2 and all(type(x) is np.ndarray for x in args) and operations(terms, args) > LIBRARY_PRODUCTS:
        kwargs = {"optimize": ["einsum_path", (0, 1)], **kwargs}
    return fn(*args, **{**kwargs, "subscripts": ",".join(terms) + "->" + letter + output})


def operations(terms, operands):
    """Return how many products an einsum sums."""
    return prod({c: n for term, x in zip(terms, operands, strict=True) for c, n in zip(term, x.shape, strict=True)}.values())


def of_columns(at):
    """Make the form of a function that takes each column of a matrix, its argument at a position, alone: it gets all columns at once."""

    def form(fn, args, kwargs, batched):
        if batched != {at}:
            return NotImplemented
        x = args[at]
        count, n, *rest = x.shape
        wide = fn(*args[:at], np.reshape(np.moveaxis(x, 0, 1), (n, -1)), *args[at + 1 :], **kwargs)
        return np.moveaxis(np.reshape(wide, (wide.shape[0], count, *rest)), 1, 0)

    return form


def solve_form(fn, args, kwargs, batched):
    a, b = args
    if len(batched) == 2 or np.ndim(a) - (0 in batched) != 2 or np.ndim(b) - (1 in batched) > 2:
        return NotImplemented
    if np.ndim(b) - (1 in batched) == 1:
        return fn(a, b[..., None])[..., 0]
    return fn(a, b)


def surround_form(fn, args, kwargs, batched):
    x, widths = args
    return fn(x, ((0, 0), *widths), **kwargs)


def gathered_form(fn, args, kwargs, batched):
    """Evaluate a function that moves elements about: it moves their positions."""
    x = args[0]
    size = np.size(x) // x.shape[0]
    places = fn(np.arange(1, size + 1).reshape(x.shape[1:]), *args[1:], **kwargs)
    if batched != {0} or any_traced(places) or places.dtype.kind != "i" or not places.all():  # with zeros among them
        return NotImplemented
    return np.reshape(x, (x.shape[0], -1))[:, places - 1]


def roll_form(fn, args, kwargs, batched):
    return np.reshape(flat_form(fn, args, kwargs, batched), args[0].shape)


axis_form, flat_form = over_axes("axis"), over_axes("axis", flatten=True)


def derived_form(row):
    """Return the form that follows from what a row says of its function, None where none does."""
    if row.elementwise:  # a linear one has one array, and options
        return natural if row.alone else elementwise_form
    if type(row.axes) is tuple:
        return natural
    if row.axes is not None and row.kind != "constant":  # argmax without an axis flattens
        return over_axes(row.axes)
    return gathered_form if row.moves and row.alone else None
