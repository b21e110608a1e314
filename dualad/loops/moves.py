"""The lowering of functions that move elements: index maps, boxes and joins. See `lower`."""

from functools import cache, reduce
from typing import Any

from numpy.lib.array_utils import normalize_axis_tuple

from ..rules.indexing import expand_index, getitem, is_basic, moves_whole
from ..rules.kinds import row_says
from ..rules.names import np
from ..rules.scalars import kernel
from ..rules.shapes import select
from .forms import (  # fmt: skip
    AffineIndex,
    Buffer,
    Fill,
    GatherIndex,
    Map,
    Node,
    NoLoopForm,
    Piecewise,
    Position,
    Region,
    Scatter,
    along,
    broadcast,
    converted,
    elements_of_one,
    fill,
    identity,
    indexed,
    lowers,
    mapped,
    maps_of,
    parts_of,
    runs_of,
    shown,
    taken,
    view,
)

# --- moving elements -----------------------------------------------------------------------------------------------------------------


@cache
def viewed(fn):
    """Make the rule of a function that gives a view."""
    return lambda out, x, *rest, **options: view(fn, x, *rest, **options)


@lowers
def reshape(out, x, *rest, **options):
    if order_of(rest, options) != "C":
        raise NoLoopForm("the order is not C")
    return reshaped(x, out.shape)


def order_of(args, kwargs):
    """Return in which order a function takes the elements of an array."""
    last = args[-1] if args else None
    return kwargs.get("order", last if type(last) is str else "C")


def reshaped(x, shape):
    """Return a node in another shape: an index map where only axes of length 1 come and go, else the same buffer."""
    shape = tuple(shape)
    if shape == x.shape:
        return x
    long, wanted = ([(k, n) for k, n in enumerate(s) if n != 1] for s in (x.shape, shape))
    if [n for _, n in long] == [n for _, n in wanted]:
        maps: list[Any] = [0] * x.ndim
        for (k, n), (target, _) in zip(long, wanted, strict=True):
            maps[k] = along(target, n)
        return indexed(x, maps, shape)
    if isinstance(x.form, Fill):
        return Node(x.form, shape, x.dtype)
    return Node(Buffer(None, None, x, (x,)), shape, x.dtype)


def along_axis(x, axis):
    """Return an array and the axis that a function goes along: of all elements without one."""
    return (reshaped(x, (x.size,)), 0) if axis is None or not x.ndim else (x, axis % x.ndim)


@lowers
def broadcast_to(out, x, shape, subok=False):
    return broadcast(as_node(x), out.shape)


def copy(out, x, order="K", subok=False):
    return as_node(x)


@lowers
def roll(out, x, shift, axis=None):
    if axis is None:
        return reshaped(roll(out, reshaped(x, (x.size,)), shift, 0), x.shape)
    shift = known(shift) if isinstance(shift, Node) and shift.shape else shift
    shifts, axes = np.broadcast_arrays(np.array(shift, object, ndmin=1), np.atleast_1d(axis))
    for s, a in zip(shifts.tolist(), (axes % x.ndim).tolist(), strict=True):
        n = x.shape[a]
        computed = isinstance(s, Node) and not isinstance(s.form, Fill)
        places = mapped(np.remainder, mapped(np.subtract, position(0, (n,)), s), n) if computed else np.roll(np.arange(n), known(s))
        x = indexed(x, [positions_along(places, n, k, (n,)) if k == a else at for k, at in enumerate(identity(x.shape))], x.shape)
    return x


@lowers
def repeat(out, x, repeats, axis=None):
    x, axis = along_axis(x, axis)
    return taken(x, axis, np.repeat(np.arange(x.shape[axis]), known(repeats)))


@lowers
def tile(out, x, reps):
    reps = (reps,) if issubclass(type(reps), int | np.integer) else tuple(reps)
    x = reshaped(x, (1,) * (len(reps) - x.ndim) + x.shape)
    for axis, times in enumerate((1,) * (x.ndim - len(reps)) + reps):
        if times != 1:
            x = taken(x, axis, np.tile(np.arange(x.shape[axis]), times))
    return x


@lowers
def tril(out, x, k=0):
    return mapped(select, constant(np.tri(*out.shape[-2:], k=k, dtype=bool)), x, 0.0, out=out.dtype)


@lowers
def triu(out, x, k=0):
    return mapped(select, constant(np.tri(*out.shape[-2:], k=k - 1, dtype=bool)), 0.0, x, out=out.dtype)


@lowers
def differences(out, x, axis):
    before = (slice(None),) * (axis % x.ndim)
    return mapped(np.subtract, window(x, (*before, slice(1, None))), window(x, (*before, slice(None, -1))))


@lowers
def scattered_differences(out, g, axis):
    before = (slice(None),) * (axis % g.ndim)
    later, earlier = (placed(fill(0.0, out.shape, out.dtype), g, (*before, part)) for part in (slice(1, None), slice(None, -1)))
    return mapped(np.subtract, later, earlier)


@lowers
def surrounded(out, x, pad_width, constant_values=0):
    number = constant_values
    if number.shape if isinstance(number, Node) else isinstance(number, tuple | list) or np.ndim(number):
        raise NoLoopForm("the constants differ")
    index = tuple(slice(before, before + n) for (before, _), n in zip(pad_width, x.shape, strict=True))
    number = number if isinstance(number, Node) else fill(out.dtype.type(number), (), out.dtype)
    return placed(broadcast(converted(number, out.dtype), out.shape), x, index)


@lowers
def zeros(out, x, *rest, **options):
    return fill(out.dtype.type(0), out.shape, out.dtype)


@lowers
def real(out, x):
    return parts_of(x)[0] if x.dtype.kind == "c" else x


@lowers
def imaginary(out, x):
    if x.dtype.kind == "c":
        return parts_of(x)[1]
    return fill(out.dtype.type(0), out.shape, out.dtype)


CONJUGATE = kernel("np.conj", 1, dtype=None)


@lowers
def conjugate(out, x):
    return Node(Map(CONJUGATE, (x,), (x.dtype,)), x.shape, out.dtype) if x.dtype.kind == "c" else x


@lowers
def rounded(out, x, decimals=0):
    if decimals != 0:
        raise NoLoopForm("it rounds to decimals")
    return x if x.dtype.kind in "iub" else mapped(np.rint, x)


@lowers
def concatenate(out, *arrays, axis=0, dtype=None, casting=None):
    nodes = list(map(as_node, arrays))
    if axis is None:
        nodes, axis = [reshaped(x, (x.size,)) for x in nodes], 0
    return joined(out, nodes, axis % len(out.shape))


@lowers
def stack(out, *arrays, axis=0, dtype=None, casting=None):
    k, nodes = axis % len(out.shape), list(map(as_node, arrays))
    return elements_of_one(nodes) or joined(out, [reshaped(x, (*x.shape[:k], 1, *x.shape[k:])) for x in nodes], k)


def as_node(x):
    """Return an argument that is an array, a number or a list of numbers as a node."""
    if isinstance(x, Node):
        return x
    if isinstance(x, list | tuple) and any(isinstance(part, Node) for part in x):
        raise NoLoopForm("a list holds traced values")
    return constant(np.asarray(x)) if np.ndim(x) else fill(x)


def joined(out, arrays, axis):
    regions, start = [], 0
    for x in arrays:
        stop = start + x.shape[axis]
        box = tuple((start, stop) if k == axis else (0, n) for k, n in enumerate(out.shape))
        maps = tuple(0 if n == 1 else AffineIndex(k, ((*box[k], 1, -box[k][0]),)) for k, n in enumerate(x.shape))
        regions.append(Region(box, converted(x, out.dtype), maps))
        start = stop
    return Node(Piecewise(tuple(regions), fill(out.dtype.type(0), out.shape, out.dtype)), out.shape, out.dtype)


def moved(x, places):
    """Return the elements of a flat array at constant places."""
    return indexed(x, (positions_along(constant(places), x.size, 0, places.shape),), places.shape)


def numbered(x, start=0):
    """Return the number of each element."""
    return np.arange(start, start + x.size).reshape(x.shape)


@lowers
def delete(out, x, obj, axis=None):
    if isinstance(obj, Node):
        obj = known(obj)
    return moved(reshaped(x, (x.size,)), np.delete(numbered(x), obj, axis))


@lowers
def insert(out, x, obj, values, axis=None):
    x, values = as_node(x), as_node(values)
    places = np.insert(numbered(x), known(obj) if isinstance(obj, Node) else obj, numbered(values, x.size), axis)
    return moved(joined(Node(None, (x.size + values.size,), out.dtype), [reshaped(part, (part.size,)) for part in (x, values)], 0), places)


@lowers
def windows(out, x, window_shape, axis=None, *, subok=False, writeable=False):
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    places = [position(k, out.shape) for k in range(x.ndim)]
    for k, a in enumerate(axes):
        places[a] = mapped(np.add, places[a], position(x.ndim + k, out.shape))
    maps = [
        along(k, n) if isinstance(at.form, Position) else GatherIndex(at, identity(out.shape), 0)
        for k, (n, at) in enumerate(zip(x.shape, places, strict=True))
    ]
    return indexed(x, maps, out.shape)


# --- indexing and assignment ---------------------------------------------------------------------------------------------------------


def known(node):
    """Return the array of a constant node."""
    if isinstance(node, Node):
        if isinstance(node.form, Fill) and not node.shape:
            return np.asarray(node.form.number)
        if not isinstance(node.form, Buffer) or node.form.array is None:
            raise NoLoopForm("an argument that says positions is computed")
        return node.form.array
    return np.asarray(node)


def constant(array):
    """Return the node of a constant array."""
    return Node(Buffer(None, np.ascontiguousarray(array)), array.shape, array.dtype)


def position(axis, shape):
    """Return the position along an axis."""
    return Node(Position(axis), shape, np.int64)


def window(x, index):
    return view(part_of, x, index)


def part_of(x, index):
    """Return the view that a basic index gives, also where it is one of a number."""
    index = index if type(index) is tuple else (index,)
    return x[index if Ellipsis in index else (*index, ...)]


def placed(base, v, index, ops=()):
    """Return `base` with v in the part that views and a basic index show."""
    if reshapes(ops):
        return reshaped(placed(first_view(base, ops), v, index, ops[1:]), base.shape)
    if not all(is_basic(args[0]) if fn is getitem else row_says(fn, "neutral") and row_says(fn, "view") == "always" for fn, args, _ in ops):
        return placed_anywhere(base, v, index, ops)
    ops = [*((part_of if fn is getitem else fn, args, kwargs) for fn, args, kwargs in ops), (part_of, (index,), {})]
    places, shape = shown(base.shape, lambda memory: reduce(lambda x, op: op[0](x, *op[1], **op[2]), ops, memory))
    if 0 in shape:
        return base
    v = converted(as_node(v), base.dtype)
    if v.ndim > len(shape):
        v = reshaped(v, v.shape[v.ndim - len(shape) :])
    if any(axis is not None and abs(stride) != 1 < shape[axis] for axis, stride, _ in places):  # with gaps
        return Node(Scatter(base, broadcast(v, shape), tuple(maps_of(places, shape)), False), base.shape, base.dtype)
    box: list[tuple[int, int]] = []
    maps: list[Any] = [0] * v.ndim
    for k, (axis, stride, first) in enumerate(places):
        last = first if axis is None else first + stride * (shape[axis] - 1)
        box.append((min(first, last), max(first, last) + 1))
        own = -1 if axis is None else axis - (len(shape) - v.ndim)
        if own >= 0 and v.shape[own] != 1:
            maps[own] = AffineIndex(k, ((*box[-1], stride, -stride * first),))
    return Node(Piecewise((Region(tuple(box), v, tuple(maps)),), base), base.shape, base.dtype)


def reshapes(ops):
    """Return whether the first of these views has another shape alone."""
    return bool(ops) and row_says(ops[0][0], "lower") == "reshape" and order_of(*ops[0][1:]) == "C"


def first_view(x, ops):
    """Return what the first of these views, which has another shape alone, shows."""
    fn, args, kwargs = ops[0]
    return reshaped(x, fn(np.empty(x.shape), *args, **kwargs).shape)


def placed_anywhere(x, v, index, ops):
    """Return `x` with v where an index chooses elements of what views show, whatever these are."""
    if not moves_whole(x, v, index, ops):
        raise NoLoopForm("it assigns parts of complex numbers")
    places: Any = np.arange(x.size).reshape(x.shape)
    for fn, args, kwargs in ops:
        if order_of(args, kwargs) not in ("C", "F"):
            raise NoLoopForm("the order is that of its memory")
        if fn is getitem and not plain_index(args[0])[1]:
            places = get(None, as_node(places), args[0])
        elif isinstance(places, Node):
            raise NoLoopForm("it is a view of what computed integers choose")
        else:
            places = fn(places, *args, **kwargs)
    chosen = get(None, as_node(places), index)
    return reshaped(assigned(None, reshaped(x, (x.size,)), v, chosen), x.shape) if chosen.size else x


def plain_index(index):
    """Return an index with constant numbers as such, and whether it is basic."""
    parts = list(index) if type(index) is tuple else [index]
    for k, part in enumerate(parts):
        if isinstance(part, Node) and isinstance(part.form, Fill) and not part.shape and part.dtype.kind in "iu":
            parts[k] = int(part.form.number)
        elif issubclass(type(part), list | np.ndarray):
            parts[k] = as_node(part)
    return tuple(parts), all(not isinstance(part, Node) for part in parts) and is_basic(tuple(parts))


@lowers
def get(out, x, index):
    index, basic = plain_index(index)
    if basic:
        return window(x, index)
    maps = gather_maps(x.shape, index)
    shape = maps.pop()
    return indexed(x, maps, shape)


@lowers
def take(out, x, indices, axis=None, into=None, mode="raise"):
    x, axis = along_axis(x, axis)
    n = x.shape[axis]
    try:
        indices, apply = known(indices), lambda fn, *numbers: fn(*numbers)
    except NoLoopForm:
        apply = mapped
    if mode == "wrap":
        indices = apply(np.remainder, indices, n)
    elif mode != "raise":
        indices = apply(np.minimum, apply(np.maximum, indices, 0), n - 1)
    return get(out, x, (*(slice(None),) * axis, indices))


def gather_maps(shape, index):
    """Return where an index with arrays of integers reads each axis, and the shape that it gives."""
    parts = []
    for part in index:
        if issubclass(type(part), bool | np.bool_):
            raise NoLoopForm("a number is its mask")
        if isinstance(part, Node) and part.dtype.kind == "b":
            mask = known(part)
            if not mask.ndim:
                raise NoLoopForm("a number is its mask")
            parts += [Node(Buffer(None, positions), positions.shape, positions.dtype) for positions in np.nonzero(mask)]
        else:
            parts.append(part)
    parts = expand_index(tuple(parts), len(shape))
    advanced = [k for k, part in enumerate(parts) if part is not None and not isinstance(part, slice)]
    arrays = {k: parts[k] if isinstance(parts[k], Node) else fill(int(parts[k])) for k in advanced}
    common = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    together = advanced == list(range(advanced[0], advanced[-1] + 1))
    first = sum(parts[k] is None or isinstance(parts[k], slice) for k in range(advanced[0])) if together else 0
    basic = [k for k, part in enumerate(parts) if part is None or isinstance(part, slice)]
    places = {k: place if place < first else place + len(common) for place, k in enumerate(basic)}
    result: dict[int, int] = {first + k: n for k, n in enumerate(common)}
    maps: list[Any] = []
    axis = 0
    for k, part in enumerate(parts):
        if part is None:
            result[places[k]] = 1
            continue
        n = shape[axis]
        axis += 1
        if isinstance(part, slice):
            r = range(n)[part]
            result[places[k]] = len(r)
            maps.append(along(places[k], len(r), r.step, r.start))
        else:
            maps.append(positions_along(arrays[k], n, first, common))
    return [*maps, tuple(result[k] for k in range(len(result)))]


def positions_along(array, n, first, common):
    """Return the positions that an array of indices says on an axis of length n, as a map of the result's axes from `first` on."""
    lead = first + len(common) - array.ndim
    try:
        plain = known(array)
    except NoLoopForm:
        if array.dtype.kind not in "iu":
            raise NoLoopForm("its index is no integer") from None
        return GatherIndex(array, tuple(0 if m == 1 else along(lead + k, m) for k, m in enumerate(array.shape)), n)
    plain = np.asarray(plain, np.int64)
    if not plain.ndim:
        return int(plain) % n
    plain = np.where(plain < 0, plain + n, plain)
    varying = [k for k, m in enumerate(plain.shape) if m != 1]
    if not varying:
        return int(plain.ravel()[0])
    if len(varying) == 1:
        pieces = runs_of(plain.ravel())
        if pieces is not None:
            return AffineIndex(lead + varying[0], pieces)
    constant = Node(Buffer(None, np.ascontiguousarray(plain)), plain.shape, np.int64)
    return GatherIndex(constant, tuple(0 if m == 1 else along(lead + k, m) for k, m in enumerate(plain.shape)), 0)


@lowers
def scattered(out, g, index, like):
    index, basic = plain_index(index)
    base = fill(out.dtype.type(0), out.shape, out.dtype)
    if basic:
        return placed(base, g, index)
    *maps, shape = gather_maps(out.shape, index)
    return Node(Scatter(base, broadcast(converted(as_node(g), out.dtype), shape), tuple(maps), True), out.shape, out.dtype)


@lowers
def added_at(out, x, b, index):
    x, b, (index, basic) = as_node(x), as_node(b), plain_index(index)
    if basic:
        return placed(x, mapped(np.add, window(x, index), b), index)
    if b.dtype != x.dtype and not b.weak:
        raise NoLoopForm("its terms are of another dtype")
    *maps, shape = gather_maps(out.shape, index)
    return Node(Scatter(x, broadcast(converted(b, out.dtype), shape), tuple(maps), True), out.shape, out.dtype)


@lowers
def assigned(out, x, v, index, ops=()):
    x, (index, basic) = as_node(x), plain_index(index)
    if basic:
        return placed(x, v, index, ops)
    if reshapes(ops):
        return reshaped(assigned(None, first_view(x, ops), v, index, ops[1:]), x.shape)
    if ops:
        return placed_anywhere(x, v, index, ops)
    *maps, shape = gather_maps(x.shape, index)
    return Node(Scatter(x, broadcast(converted(as_node(v), x.dtype), shape), tuple(maps), False), x.shape, x.dtype)
