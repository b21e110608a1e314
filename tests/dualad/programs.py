"""Random programs of views and writes: source text that plain NumPy runs, and its check against NumPy and an outside oracle.

A program is a list of lines over the names ``x`` (the argument), ``c`` and ``d`` (plain arrays) and ``v0, v1, ...``. It is grown line by
line on plain NumPy, which says what the names are; a line that NumPy refuses may stand last, and must be refused in both modes.
"""

import warnings
from contextlib import suppress

import numpy as np

import dualad
from checkpoint import hvp, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import jacobian, jvp

H = 1e-30  # step of the complex step: it has no rounding error
SIZES = [(3,), (2, 3), (3, 2, 2), (1, 4), (4, 1), (129,), (11, 12), (5, 7, 4), (20, 27), (600,), (9, 8, 8)]  # up to 1 KB, 4 KB, more
LAYOUTS = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "transposed": lambda a: np.ascontiguousarray(np.moveaxis(a, 0, -1)).transpose(a.ndim - 1, *range(a.ndim - 1)),
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "last reversed": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "rows of more": lambda a: np.concatenate([a, a])[: len(a)],
    "columns of more": lambda a: np.concatenate([a, a], -1)[..., : a.shape[-1]],
    "F, every second": lambda a: np.asfortranarray(np.repeat(a, 2, axis=0))[::2],
    "unaligned": lambda a: unaligned(a),
    "zero strides": lambda a: np.broadcast_to(a[:1], a.shape),  # read-only
}


def unaligned(a):
    """Return a copy that starts at an odd address."""
    memory = np.empty(a.nbytes + 1, np.uint8)
    b = memory[1:].view(a.dtype).reshape(a.shape)
    b[...] = a
    return b


def layout(a):
    """Return what of an array's memory layout NumPy can tell: contiguity, order and direction of axes, and where they have gaps."""
    axes = [i for i in range(a.ndim) if a.shape[i] > 1]
    if a.size < 2:
        return ()
    strides = {i: a.strides[i] for i in axes}
    order = sorted(axes, key=lambda i: abs(strides[i]))
    tight, span = [], a.itemsize
    for i in order:
        tight.append((i, int(np.sign(strides[i])), abs(strides[i]) == span))
        span = abs(strides[i]) * a.shape[i]
    return a.flags.c_contiguous, a.flags.f_contiguous, *tight


def state(v):
    """Return value, dtype, shape and layout of what a name stands for, plain or traced."""
    v = dualad.primal(v)
    if type(v) is np.ndarray:
        return v.tobytes(), v.dtype, v.shape, layout(v)
    v = np.asarray(v)
    return v.tobytes(), v.dtype, "scalar", ()


def owned(v):
    """Return a result of which several elements are one as a copy of its own: what is handed out may be either."""
    if type(v) is not np.ndarray or not v.size:
        return v
    low, high = np.lib.array_utils.byte_bounds(v)
    shared = high - low < v.nbytes or any(n > 1 and not s for n, s in zip(v.shape, v.strides, strict=True))
    return np.copy(v, "K") if shared else v


class Program:
    """Lines of source, the argument and the plain arrays that they read."""

    sizes = SIZES

    def __init__(self, seed, shape=None, layout="C", lines=()):
        self.seed = seed
        self.rng = rng = np.random.default_rng(seed)
        self.shape = self.sizes[rng.integers(len(self.sizes))]
        self.layout = str(rng.choice(list(LAYOUTS)))
        self.values = rng.uniform(-1.0, 1.0, self.shape)
        self.dtype = np.dtype(np.float32 if rng.random() < 0.1 else np.float64)
        self.constants = rng.uniform(0.5, 1.5, self.shape), rng.uniform(0.5, 1.5, self.shape)
        self.constant_layout = str(rng.choice([name for name in LAYOUTS if name != "zero strides"]))
        self.lines, self.raises = list(lines), False
        if lines:
            self.shape, self.layout, self.dtype, self.constant_layout = shape, layout, np.dtype(float), "F"
            self.values, *self.constants = rng.uniform(0.1, 1.0, (3, *shape))
        else:
            self.grow(int(rng.integers(3, 14)))

    def argument(self, dtype=None):
        """Return the argument, made anew."""
        return LAYOUTS[self.layout](self.values.astype(dtype or self.dtype))

    def space(self, x):
        """Return the names that the lines begin with."""
        c, d = (LAYOUTS[self.constant_layout](a.astype(self.dtype)) for a in self.constants)
        return {"np": np, "x": x, "c": c, "d": d}

    def run(self, x, trace=None):
        """Run the lines and return all numbers and arrays that came of x; with what each name stands for after each line."""
        space = self.space(x)
        for line in self.lines:
            exec(line, space)
            if trace is not None:
                trace.append({name: state(v) for name, v in space.items() if name[0] in "xv"})
        return tuple(v for name, v in sorted(space.items()) if name[0] in "xv")

    def __str__(self):
        head = f"# seed {self.seed}: x of shape {self.shape}, {self.dtype}, layout {self.layout!r}; c, d {self.constant_layout!r}"
        return "\n".join([head, *self.lines, *(["# the last line raises"] if self.raises else [])])

    # --- growing ------------------------------------------------------------------------------------------------------------

    def grow(self, count):
        space = self.space(self.argument())
        made = 0
        while len(self.lines) < count and made < 60:
            made += 1
            line = self.line(space, made)
            before = {name: v.copy() if isinstance(v, np.ndarray) else v for name, v in space.items() if name[0] in "xv"}
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("error")
                    exec(line, space)
            except Exception as error:
                if "read-only" in str(error) and self.layout == "zero strides":
                    continue  # to write into a copy of a read-only argument is fine
                changed = any(name in before and not np.array_equal(before[name], v) for name, v in space.items() if name[0] in "xv")
                if changed or (self.rng.random() < 0.05 and len(self.lines) > 3):
                    if not changed:
                        self.lines.append(line)
                        self.raises = True
                    return
                continue
            values = [v for name, v in space.items() if name[0] in "xv"]
            self.lines.append(line)
            if not all(map(self.fits, values)) or not all(np.all(np.abs(v) < 50.0) for v in values):
                self.lines.pop()
                return  # too large to go on with

    def fits(self, v):
        """Return whether to go on with a value."""
        return isinstance(v, np.ndarray | np.generic) and 0 < np.size(v) < 3000

    def line(self, space, number):
        rng = self.rng
        names = [name for name in space if name[0] in "xv"]
        recent = names[-4:] if rng.random() < 0.6 else names
        a, b = (str(rng.choice(recent)) for _ in range(2))
        v = space[a]
        mates = [name for name in (*names, "c", "d") if np.shape(space[name]) == np.shape(v)]
        mate = str(rng.choice(mates))
        other = mate if rng.random() < 0.7 else b
        maker = rng.choice(MAKERS) if rng.random() < 0.55 or type(v) is not np.ndarray else None
        if maker is not None:
            line = f"v{number} = {maker(rng, a, v, other, space[other])}"
            line = line.replace("float)", f"{a}.dtype)") if self.dtype == np.float32 else line
            return line.replace("'K'", "'C'") if self.layout == "zero strides" else line  # there 'K' is NumPy's own affair
        return rng.choice(WRITERS)(rng, a, v, other, space[other])


# --- pieces of source ---------------------------------------------------------------------------------------------------------


def piece(rng, n):
    """Return an index of an axis of length n that makes a view."""
    kind = rng.integers(6)
    if kind == 0:
        return str(int(rng.integers(-n, n)))
    if kind == 1:
        return ":"
    start, stop = sorted(int(i) for i in rng.integers(0, n + 1, 2))
    step = int(rng.integers(1, 3))
    return [f"{start}:", f":{max(stop, 1)}", "::-1", f"::{step}", f"{start}:{stop + 1}"][rng.integers(5)]


def basic(rng, v):
    """Return a basic index."""
    ndim = np.ndim(v)
    parts = [piece(rng, n) for n in np.shape(v)[: int(rng.integers(1, ndim + 1)) if ndim else 0]]
    if rng.random() < 0.2:
        parts.insert(int(rng.integers(len(parts) + 1)), "None")
    if rng.random() < 0.3 or not parts:
        parts.insert(int(rng.integers(len(parts) + 1)), "...")
        if ndim and len([p for p in parts if p not in ("None", "...")]) and parts[0] == "...":
            parts = ["...", piece(rng, np.shape(v)[-1])]
    return ", ".join(parts)


def fancy(rng, v):
    """Return an advanced index."""
    shape = np.shape(v)
    if not shape:
        return str(rng.choice(["np.asarray(True)", "np.asarray(False)", "None", "..."]))
    n = shape[0]
    some = [int(i) for i in rng.integers(-n, n, int(rng.integers(1, 4)))]
    unique = [int(i) for i in rng.permutation(n)[: int(rng.integers(1, 4))]]
    last = [int(i) for i in rng.permutation(shape[-1])[: int(rng.integers(1, 4))]]
    grid = np.arange(np.size(v)) % int(rng.integers(2, 4)) == 0
    modulus = int(rng.integers(2, 4))
    return (
        str(
            rng.choice(
                [
                    f"{some}",
                    f"{unique}",
                    f"..., {last}",
                    f"np.array({unique})",
                    f"np.arange({np.size(v)}).reshape({shape}) % {modulus} == 0",
                    f"np.arange({n}) % {modulus} == 1",
                    f"{unique}, ..., {int(rng.integers(shape[-1]))}" if len(shape) > 1 else f"{unique}",
                    f"np.array([{unique}, {unique}])",
                ]
            )
        )
        if grid.any()
        else f"{unique}"
    )


def axis(rng, v):
    return int(rng.integers(-np.ndim(v), np.ndim(v))) if np.ndim(v) else 0


def order(rng, orders="CFAK"):
    return str(rng.choice(list(orders)))


def new_shape(rng, v):
    """Return a shape of the same size."""
    n = int(np.size(v))
    divisors = [k for k in range(1, n + 1) if n % k == 0]
    k = int(rng.choice(divisors))
    return str(rng.choice(["-1", f"({k}, -1)", f"(-1, {k})", f"{np.shape(v)[::-1]}", f"(1, {k}, {n // k})", f"({n // k}, {k}, 1)"]))


def number(rng):
    return f"{rng.uniform(0.2, 1.2):.3f}"


def threshold(rng):
    return f"{rng.uniform(-0.8, 0.8):.6f}"


def distinct(v):
    return np.unique(v).size == np.size(v)


MAKERS = [
    # views
    *[lambda r, a, v, b, w: f"{a}[{basic(r, v)}]"] * 4,
    *[lambda r, a, v, b, w: f"{a}.T"] * 2,
    lambda r, a, v, b, w: f"{a}.ravel()",
    lambda r, a, v, b, w: f"np.ravel({a}, {order(r)!r})",
    *[lambda r, a, v, b, w: f"{a}.reshape({new_shape(r, v)})"] * 2,
    lambda r, a, v, b, w: f"np.reshape({a}, {new_shape(r, v)}, order={order(r, 'CFA')!r})",
    lambda r, a, v, b, w: f"{a}.swapaxes({axis(r, v)}, {axis(r, v)})",
    lambda r, a, v, b, w: f"np.moveaxis({a}, {axis(r, v)}, {axis(r, v)})",
    lambda r, a, v, b, w: f"{a}.transpose({tuple(map(int, r.permutation(np.ndim(v))))})",
    lambda r, a, v, b, w: f"np.expand_dims({a}, {axis(r, v)})",
    lambda r, a, v, b, w: f"{a}.squeeze()",
    lambda r, a, v, b, w: f"np.broadcast_to({a}, {(2, *np.shape(v))})",
    lambda r, a, v, b, w: f"np.broadcast_to({a}[..., None], {(*np.shape(v), 2)})",
    lambda r, a, v, b, w: f"np.flip({a}, {axis(r, v)})",
    lambda r, a, v, b, w: f"np.diagonal({a})",
    lambda r, a, v, b, w: f"np.atleast_2d({a})",
    lambda r, a, v, b, w: f"np.atleast_3d({a})",
    lambda r, a, v, b, w: f"np.split({a}, [1], axis={axis(r, v)})[{int(r.integers(2))}]",
    lambda r, a, v, b, w: f"np.rot90({a}, {int(r.integers(4))})",
    lambda r, a, v, b, w: f"np.rollaxis({a}, {axis(r, v)})",
    lambda r, a, v, b, w: f"np.broadcast_arrays({a}, {b})[0] * 1.0",
    # elements
    lambda r, a, v, b, w: f"{a}[{', '.join(str(int(r.integers(n))) for n in np.shape(v)) or '()'}]",
    lambda r, a, v, b, w: f"{a}.flat[{int(r.integers(-np.size(v), np.size(v)))}]",
    lambda r, a, v, b, w: f"{a}.flat[{piece(r, np.size(v))}]",
    lambda r, a, v, b, w: f"{a}.flat[{[int(i) for i in r.integers(0, np.size(v), 3)]}]",
    lambda r, a, v, b, w: f"np.stack([e * 2.0 for e in {a}.flat][:3])",
    # copies
    lambda r, a, v, b, w: f"{a}.copy()",
    lambda r, a, v, b, w: f"{a}.copy({order(r)!r})",
    lambda r, a, v, b, w: f"np.copy({a})",
    lambda r, a, v, b, w: f"np.copy({a}, order={order(r)!r})",
    lambda r, a, v, b, w: f"{a}.flatten()",
    lambda r, a, v, b, w: f"{a}.flatten({order(r)!r})",
    lambda r, a, v, b, w: f"{a}.astype({a}.dtype, order={order(r)!r})",
    lambda r, a, v, b, w: f"{a}.astype(np.result_type({a}, float))",
    lambda r, a, v, b, w: f"np.zeros_like({a}, order={order(r)!r})",
    lambda r, a, v, b, w: f"np.full_like({a}, {number(r)}, order={order(r)!r})",
    lambda r, a, v, b, w: f"np.ones_like({a}) * {number(r)}",
    lambda r, a, v, b, w: f"{a}[{fancy(r, v)}]",
    lambda r, a, v, b, w: f"{a}[{fancy(r, v)}]",
    lambda r, a, v, b, w: f"{a}[{a} > {threshold(r)}]",
    lambda r, a, v, b, w: f"np.take({a}, {[int(i) for i in r.integers(0, min(np.shape(v) or (1,)), 2)]}, axis={axis(r, v)})",
    lambda r, a, v, b, w: f"{a}.take({[int(i) for i in r.integers(0, np.size(v), 3)]})",
    lambda r, a, v, b, w: f"np.take({a}, {int(r.integers(0, min(np.shape(v) or (1,))))}, axis={axis(r, v)})",
    lambda r, a, v, b, w: f"np.sort({a}, axis={axis(r, v)})" if distinct(v) else f"np.roll({a}, 2)",
    lambda r, a, v, b, w: f"np.sort({a}, axis=None)" if distinct(v) else f"np.roll({a}, 2, {axis(r, v)})",
    lambda r, a, v, b, w: f"np.where({a} > {threshold(r)}, {a}, {b})",
    lambda r, a, v, b, w: f"np.where({b} > {threshold(r)}, {a} * {number(r)}, 0.25)",
    lambda r, a, v, b, w: f"np.concatenate([{a}, {b}], axis={axis(r, v)})",
    lambda r, a, v, b, w: f"np.stack([{a}, {b}], axis={axis(r, v)})",
    lambda r, a, v, b, w: f"np.vstack([{a}, {b}])",
    lambda r, a, v, b, w: f"np.hstack([{a}, {b}])",
    lambda r, a, v, b, w: f"np.tile({a}, 2)",
    lambda r, a, v, b, w: f"np.repeat({a}, 2, axis={axis(r, v)})",
    lambda r, a, v, b, w: f"np.roll({a}, 1)",
    lambda r, a, v, b, w: f"np.roll({a}, 1, axis={axis(r, v)})",
    lambda r, a, v, b, w: f"np.diff({a}, axis={axis(r, v)})",
    lambda r, a, v, b, w: f"np.pad({a}, 1)",
    lambda r, a, v, b, w: f"np.tril({a})",
    lambda r, a, v, b, w: f"np.delete({a}, 0, axis={axis(r, v)})",
    lambda r, a, v, b, w: f"np.append({a}, {b})",
    # arithmetic
    *[lambda r, a, v, b, w: f"{a} * {number(r)}"] * 2,
    *[lambda r, a, v, b, w: f"{number(r)} - {a}"] * 2,
    *[lambda r, a, v, b, w: f"{a} * {b}"] * 2,
    *[lambda r, a, v, b, w: f"{b} - {a}"] * 2,
    lambda r, a, v, b, w: f"{a} + d",
    lambda r, a, v, b, w: f"c * {a}",
    lambda r, a, v, b, w: f"{a} / c",
    lambda r, a, v, b, w: f"-{a}",
    lambda r, a, v, b, w: f"np.multiply({a}, {b})",
    lambda r, a, v, b, w: f"{a} ** 2",
    lambda r, a, v, b, w: f"np.square({a})",
    lambda r, a, v, b, w: f"np.sqrt({a} * {a} + 1.0)",
    lambda r, a, v, b, w: f"np.reciprocal({a} * {a} + 1.0)",
    lambda r, a, v, b, w: f"np.maximum({a}, {threshold(r)})",
    lambda r, a, v, b, w: f"np.clip({a}, -0.7123, 0.8131)",
    lambda r, a, v, b, w: f"np.dot({a}, {b}.T) * 0.05",
    lambda r, a, v, b, w: f"{a} @ {b} * 0.05",
    lambda r, a, v, b, w: f"np.outer({a}, {b})" if np.size(v) * np.size(w) < 900 else f"np.square({a})",
    # reductions
    lambda r, a, v, b, w: f"np.sum({a}) * 0.01",
    lambda r, a, v, b, w: f"np.sum({a}, axis={axis(r, v)}) * 0.1",
    lambda r, a, v, b, w: f"np.mean({a}, axis={axis(r, v)}, keepdims=True)",
    lambda r, a, v, b, w: f"np.cumsum({a}, axis={axis(r, v)}) * 0.1",
    lambda r, a, v, b, w: f"{a}.mean()",
    lambda r, a, v, b, w: f"np.max({a}, axis={axis(r, v)})" if distinct(v) else f"{a}.sum({axis(r, v)}) * 0.1",
    # of no axes
    lambda r, a, v, b, w: f"np.reshape({a}, {new_shape(r, v)})[{', '.join('0' * 0) or '...'}]",
    lambda r, a, v, b, w: f"np.reshape(np.mean({a}), ())",
    lambda r, a, v, b, w: f"np.where(np.asarray(np.sum({a}) > 0), np.mean({a}), {number(r)})",
    lambda r, a, v, b, w: f"{a}.ravel()[..., {int(r.integers(np.size(v)))}]",
    lambda r, a, v, b, w: f"np.copy(np.mean({a}))",
]
SQUARES = np.lib.NumpyVersion(np.__version__) >= "2.1.0"  # before, **= 2 is by pow in some programs, one ulp off


def change(r, b, w, v):
    """Return an operator and what it writes."""
    op = str(r.choice(["+=", "-=", "*=", "=", "="]))
    return f"{op} {r.choice([number(r), f'{b} * {number(r)}', b, f'np.mean({b})'])}"


WRITERS = [
    *[lambda r, a, v, b, w: f"{a} {r.choice(['+=', '-=', '*='])} {b}"] * 3,
    lambda r, a, v, b, w: f"{a} {r.choice(['+=', '-=', '*=', '/='])} {number(r)}",
    lambda r, a, v, b, w: f"{a} **= 2" if SQUARES else f"{a} *= {a}",
    *[lambda r, a, v, b, w: f"{a}[...] {change(r, b, w, v)}"] * 3,
    *[lambda r, a, v, b, w: f"{a}[{basic(r, v)}] = {r.choice([number(r), f'np.mean({b})', b])}"] * 3,
    *[lambda r, a, v, b, w: f"{a}[{basic(r, v)}] {r.choice(['+=', '-=', '*='])} {r.choice([number(r), f'np.mean({b})', b])}"] * 3,
    lambda r, a, v, b, w: f"i = np.s_[{basic(r, v)}]; {a}[i] = {a}[i] * {number(r)}",
    lambda r, a, v, b, w: f"i = np.s_[{basic(r, v)}]; {a}[i] = {b}[i]",
    lambda r, a, v, b, w: f"i = np.s_[{fancy(r, v)}]; {a}[i] = {b}[i] * {number(r)}",
    lambda r, a, v, b, w: f"{a}[{fancy(r, v)}] {r.choice(['+=', '*=', '='])} {r.choice([number(r), f'np.mean({b})'])}",
    lambda r, a, v, b, w: f"{a}[{a} > {threshold(r)}] {r.choice(['*=', '='])} {r.choice([number(r), f'np.mean({b})'])}",
    lambda r, a, v, b, w: f"{a}[1:] += {a}[:-1]",
    lambda r, a, v, b, w: f"{a}[..., 1:] -= {a}[..., :-1]",
    lambda r, a, v, b, w: f"{a}[:-1] = {a}[1:]",
    lambda r, a, v, b, w: f"{a}[...] = {a}[::-1]",
    lambda r, a, v, b, w: f"{a} += {a}.T",
    lambda r, a, v, b, w: f"{a}.flat[{int(r.integers(-np.size(v), np.size(v)))}] {change(r, f'np.mean({b})', w, v)}",
    lambda r, a, v, b, w: f"{a}.flat[{piece(r, np.size(v))}] {r.choice(['+=', '*=', '='])} {r.choice([number(r), f'np.mean({b})'])}",
    lambda r, a, v, b, w: f"{a}.flat[{[int(i) for i in r.permutation(np.size(v))[:2]]}] = {number(r)}",
    lambda r, a, v, b, w: f"{a}.flat = {r.choice([f'{b} * 1.0', number(r), f'{b}.T.copy()'])}",
    lambda r, a, v, b, w: f"{a}.fill({number(r)})",
    lambda r, a, v, b, w: f"{a}.sort({axis(r, v)})" if distinct(v) else f"{a} *= {b}",
    lambda r, a, v, b, w: f"np.multiply({a}, {number(r)}, out={a})",
    lambda r, a, v, b, w: f"np.add({a}, {b}, out={a})",
    lambda r, a, v, b, w: f"np.subtract({b}, {a}, out={a})",
    lambda r, a, v, b, w: f"np.square({a}, out={a})",
    lambda r, a, v, b, w: f"np.copyto({a}, {b})" if not np.shares_memory(v, w) else f"{a} += {b}",
    lambda r, a, v, b, w: f"np.cumsum({a} * 0.1, axis={axis(r, v)}, out={a})" if np.ndim(v) else f"{a} *= 0.5",  # NumPy crashes
    lambda r, a, v, b, w: f"{a}.ravel()[{piece(r, np.size(v))}] = {number(r)}",
    lambda r, a, v, b, w: f"{a}.reshape({new_shape(r, v)})[...] *= {number(r)}",
    lambda r, a, v, b, w: f"{a}.T[...] = {number(r)}",
]


# --- checks ---------------------------------------------------------------------------------------------------------------------


def differences(program, rng, deep=False):
    """Return what differs between plain NumPy, the two modes and the outside oracle: a list of lines, empty where all agree."""
    x, constant = program.argument(), program.space(None)["c"]
    t = rng.standard_normal(program.shape).astype(program.dtype)
    if program.layout == "zero strides":
        t = np.broadcast_to(t[:1], t.shape)
    expected, trace = None, []
    with np.errstate(all="ignore"):
        with suppress(Exception):
            expected = program.run(program.argument(), trace)
        found = []
        runs = {}
        for mode in ("forward", "reverse"):
            lines = []
            f = lambda x, lines=lines: program.run(x, lines)
            x = program.argument()
            try:
                runs[mode] = jvp(f, (x,), (t,)) if mode == "forward" else vjp(f, x)
            except Exception as error:
                if expected is not None:
                    found.append(f"{mode}: line {len(lines) + 1} raised {type(error).__name__}: {error}")
            if expected is None and mode in runs:
                found.append(f"{mode}: nothing raised")
            for k, (line, plain) in enumerate(zip(lines, trace, strict=False)):
                bad = [name for name in plain if line[name] != plain[name]]
                if bad:
                    what = [
                        f"{name}: {part} {b} != {a}" if part != "value" else f"{name}: {part}"
                        for name in bad
                        for part, a, b in zip(("value", "dtype", "shape", "layout"), plain[name], line[name], strict=True)
                        if a != b
                    ]
                    found.append(f"{mode}: after line {k + 1} ({program.lines[k]}): {what}")
                    break
            if not np.array_equal(x, program.argument()):
                found.append(f"{mode}: the caller's array was written")
            if mode in runs and expected is not None:
                for k, (a, b) in enumerate(zip(expected, runs[mode][0], strict=True)):
                    if state(owned(a)) != state(owned(b)):
                        found.append(f"{mode}: result {k} differs: {state(a)[1:]} {state(b)[1:]}")
        if found or expected is None:
            return found
        assert constant.tobytes() == program.space(None)["c"].tobytes()
        tangents = oracle(program, t)
        if tangents is None:
            return [] if program.dtype == np.float32 else ["no oracle"]
        scale = max(1.0, *(float(np.max(np.abs(u), initial=0.0)) for u in tangents))
        tolerance = 1e-3 * scale if program.dtype == np.float32 else 1e-9 * scale
        close = lambda a, b: np.shape(a) == np.shape(b) and np.all(np.abs(np.asarray(a) - b) <= tolerance * max(1.0, np.sqrt(np.size(a))))
        for k, (u, v) in enumerate(zip(runs["forward"][1], tangents, strict=True)):
            if not close(u, v):
                found.append(f"forward: tangent of result {k}: {u} != {v}")
        weights = tuple(np.asarray(rng.standard_normal(np.shape(v)), np.asarray(v).dtype)[()] for v in expected)
        _, pullback = runs["reverse"]
        expected_sum = sum(float(np.sum(u * w)) for u, w in zip(tangents, weights, strict=True))
        size = sum(float(np.sum(np.abs(u * w))) for u, w in zip(tangents, weights, strict=True))
        for _ in range(2):
            (g,) = pullback(weights)
            if abs(float(np.sum(g * t)) - expected_sum) > (1e-3 if program.dtype == np.float32 else 1e-9) * max(1.0, size):
                found.append(f"reverse: {np.sum(g * t)} != {expected_sum}")
        if found or not deep or program.dtype == np.float32:
            return found
        loss = lambda x: sum(np.sum(w * v * v) for w, v in zip(weights, program.run(x), strict=True))
        if np.size(x) <= 12:
            for name, jac in (("forward", jacobian), ("reverse", reverse_jacobian)):
                for chunk in (1, 3):
                    blocks = jac(program.run, chunk=chunk)(program.argument())
                    for k, (block, v) in enumerate(zip(blocks, tangents, strict=True)):
                        if not close(np.tensordot(block, t, t.ndim), v):
                            found.append(f"{name} jacobian, chunk {chunk}: result {k}")
        base = LAYOUTS[program.layout]
        near = lambda e: base(program.values + e * (t if program.layout != "zero strides" else t[:1]))
        slope = lambda z: vjp(loss, z)[1](1.0)[0]
        product = hvp(loss, program.argument(), np.array(t))
        errors = []
        for h in (1e-6, 1e-8):  # the smaller one where two values that are sorted are nearly equal
            second = (slope(near(h)) - slope(near(-h))) / (2 * h)
            errors.append(np.max(np.abs(second - product)) / max(1.0, np.max(np.abs(second)), np.max(np.abs(product))))
        if min(errors) > 1e-4:
            found.append(f"order 2: {min(errors)}")
        return found


def oracle(program, t):
    """Return the tangents along t by the complex step; None where the program has no complex form."""
    x = program.argument(complex if program.dtype == np.float64 else np.complex64)
    if program.layout == "zero strides":
        x = LAYOUTS[program.layout](program.values + 1j * H * t)
    else:
        x += np.asarray(1j * H * t, x.dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [np.imag(v) / H for v in program.run(x)]
    except Exception:
        return None
