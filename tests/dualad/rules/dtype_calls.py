"""Calls of every function of the table with every dtype it may take: scalars, 0-d, size 1, empty, Python numbers, other byte orders.

`calls` makes them from the samples: one leaf is differentiated, of a dtype and form; the others are constants of another dtype.
``python tests/dualad/rules/dtype_calls.py N`` (with the repository on the path) tries every N-th of them.
"""

import re
import sys
import traceback
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import optree
from samples import CONSTANTS, SAMPLES, Sample

from checkpoint import vjp
from dualad import jvp
from dualad.core.levels import Level
from dualad.forward.dual import make_dual
from dualad.forward.seeding import flatten_output, split_value
from dualad.rules.calling import public_name

TRACED = ["e", "f", "d", "F", "D", ">f8", ">f4"]
GIVEN = ["?", "u1", "i1", "i8", "e", "f", "d", "F", "D", ">f8", ">i4"]
FORMS = ["as it is", "scalar", "0-d", "one", "empty", "python"]

#: functions that NumPy does not let see all their arguments: only this many leaves
UNSEEN = {np.select: 1, np.piecewise: 1, np.polyint: 1, np.lexsort: 0, np.apply_along_axis: 1, np.full_like: 1}

#: what NumPy (of some version) does not take as it takes arrays, or answers with what the memory holds
LEFT_OUT = {
    np.fft.irfftn: ("empty",),
    np.insert: ("python",),
    np.trim_zeros: ("python", "scalar", "0-d"),
    **({np.astype: ("python",)} if hasattr(np, "astype") else {}),
}

#: what a function returns is not determined, or is no number
UNDETERMINED = {"numpy.empty_like", "numpy.array2string", "numpy.array_repr", "numpy.array_str"}


@dataclass
class Call:
    """A function at a sample, with leaf `i` differentiated; `given` and `traced` are dtypes, None for those of the sample."""

    fn: Any
    sample: Sample
    i: int
    traced: str
    given: str
    form: str

    def __str__(self):
        return f"{public_name(self.fn)}{self.sample}: leaf {self.i} of dtype {self.traced}, others {self.given}, {self.form}"

    def leaves(self):
        """The leaves as the call has them."""
        leaves = self.sample.leaves()
        return [formed(as_dtype(x, self.traced if k == self.i else self.given), self.form) for k, x in enumerate(leaves)]

    def function(self, leaves):
        """The call as a function of the differentiated leaf, and that leaf."""

        def f(x):
            return self.fn(*self.sample.fill([x if k == self.i else leaf for k, leaf in enumerate(leaves)]), **self.sample.kwargs)

        return f, leaves[self.i]


def as_dtype(x, dtype):
    """Numbers like those of a leaf, of a dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        x = np.round(4.0 * np.real(x))
        return (np.abs(x) if dtype.kind in "bu" else x).astype(dtype) if hasattr(x, "astype") else dtype.type(abs(x))
    x = np.real(x) if dtype.kind == "f" else x
    return np.asarray(x).astype(dtype) if isinstance(x, np.ndarray) else dtype.newbyteorder("=").type(x)


def formed(x, form):
    """A leaf as an array of another shape, or as a number."""
    if form == "as it is":
        return x
    if form in ("one", "empty"):
        return x[(slice(0, 1 if form == "one" else 0),) * x.ndim] if isinstance(x, np.ndarray) and x.ndim else x
    if not np.size(x):
        return x
    first = np.ravel(x)[0]
    return np.asarray(first) if form == "0-d" else first.item() if form == "python" else first


def calls():
    """All calls, in a fixed order."""
    for fn, samples in (*SAMPLES.items(), *CONSTANTS.items()):
        if public_name(fn) in UNDETERMINED or not public_name(fn).startswith(("numpy", "scipy")):
            continue
        for sample in samples:
            leaves = sample.leaves()
            for i in range(len(leaves) if fn not in UNSEEN else UNSEEN[fn]):
                for form in FORMS:
                    if form in LEFT_OUT.get(fn, ()):
                        continue
                    for traced in TRACED:
                        for given in GIVEN if len(leaves) > 1 else GIVEN[:1]:
                            yield Call(fn, sample, i, traced, given, form)


def check(call):
    """Compare a call of both modes, and two directions at once, with NumPy's; returns what it is, or raises AssertionError."""
    leaves = call.leaves()
    f, x = call.function(leaves)
    try:
        with warnings.catch_warnings(action="error", category=np.exceptions.ComplexWarning):
            plain = f(x)
    except np.exceptions.ComplexWarning:
        return "imaginary parts are lost"
    except Exception as error:
        for mode in (lambda: jvp(f, (x,), (tangent(x),)), lambda: vjp(f, x)):
            try:
                got = mode()[0]
            except Exception:
                continue
            raise AssertionError(f"{call}: NumPy raises {type(error).__name__}: {error}, not here: {got!r}") from None
        return "raises"
    if not numeric(plain):
        return "no numbers"
    v = tangent(x)
    try:
        value, t = jvp(f, (x,), (v,))
        again, pull = vjp(f, x)
    except TypeError as error:
        if re.search("no derivative|cannot hold derivatives|cannot hold traced", str(error)):
            return "refused"
        raise
    for mode, result in (("forward", value), ("reverse", again)):
        for got, expected in zip(arrays(result), arrays(plain), strict=True):
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), (
                f"{call}: {mode} gives {got.dtype}{got.shape}, NumPy {expected.dtype}{expected.shape}"
            )
            assert same(got, expected), f"{call}: {mode} gives {got!r}, NumPy {expected!r}"
    tangents, values = arrays(t), arrays(plain)
    for got, expected in zip(tangents, values, strict=True):
        assert got.shape == expected.shape, f"{call}: tangent of shape {got.shape}, value {expected.shape}"
        assert got.dtype == expected.dtype or expected.dtype.kind not in "fc", f"{call}: tangent of {got.dtype}, value of {expected.dtype}"
    if not all(out.dtype.kind in "fc" for out in values):
        return "constant"
    seeds = [np.asarray(tangent(out)) for out in values]
    (g,) = pull(optree.tree_unflatten(optree.tree_structure(plain), seeds))
    g = np.asarray(g)
    assert g.shape == np.shape(x) and g.dtype == np.asarray(x).dtype, f"{call}: cotangent {g.dtype}{g.shape}"
    together(call, f, x, v, tangents)
    forward = [np.real(a.astype("D") * b.astype("D")) for a, b in zip(seeds, tangents, strict=True)]
    reverse = np.real(g.astype("D") * np.asarray(v).astype("D"))
    sizes = sum(float(np.sum(np.abs(part))) for part in (*forward, reverse))
    if np.isfinite(sizes):
        eps = max(float(np.finfo(a.dtype).eps) for a in (np.asarray(x), *values))
        apart = abs(sum(float(np.sum(part)) for part in forward) - float(np.sum(reverse)))
        assert apart <= 64 * eps * sizes + 64 * eps, f"{call}: forward {forward}, reverse {reverse}"
    return "agrees"


def together(call, f, x, v, tangents):
    """Compare two directions pushed at once with the first alone."""
    raw = np.asarray(x)
    if raw.ndim == 0 and not isinstance(x, np.ndarray):
        directions = np.stack([np.asarray(v), 2 * np.asarray(v)]).astype(raw.dtype)
        x = float(x) if raw.dtype == float else x
    else:
        directions = np.stack([v, 2 * v]).astype(raw.dtype)
    with Level(2, weak=isinstance(call.leaves()[call.i], float) and not isinstance(call.leaves()[call.i], np.float64)) as level:
        outs = flatten_output(f(make_dual(x, directions, level)), "test")[0]
        pairs = [split_value(out, level) for out in outs]
    for (_, many), single in zip(pairs, tangents, strict=True):
        many = np.zeros((2, *single.shape)) if many is None else many
        assert many.shape == (2, *single.shape), f"{call}: two directions of shape {many.shape}"
        eps = float(np.finfo(single.dtype).eps) if single.dtype.kind in "fc" else 1e-3
        finite = np.isfinite(single) & np.isfinite(many[0])
        scale = float(np.max(np.abs(single[finite]), initial=0.0))
        apart = float(np.max(np.abs(many[0][finite] - single[finite]), initial=0.0))
        assert apart <= 64 * eps * (scale + 1.0), f"{call}: two directions give {many[0]!r}, one {single!r}"


def tangent(x):
    """A direction like `x`."""
    a = np.asarray(x)
    v = np.cos(np.arange(a.size) + 1.0).reshape(a.shape)
    v = (v + 0.5j * v[::-1] if a.ndim else v + 0.5j) if a.dtype.kind == "c" else v
    v = np.asarray(v).astype(a.dtype)
    return v if isinstance(x, np.ndarray) else v[()] if hasattr(x, "dtype") else v.item()


def numeric(tree):
    """Whether a result holds arrays or numbers, and nothing else."""
    if isinstance(tree, tuple | list):
        return bool(tree) and all(map(numeric, tree))
    return isinstance(tree, bool | int | float | complex) or (
        getattr(tree, "dtype", None) is not None and isinstance(tree, np.ndarray | np.generic)
    )


def arrays(tree):
    return [np.asarray(leaf) for leaf in flatten_output(tree, "test")[0]]


def same(a, b):
    """Whether two arrays hold the same bits; NaNs are all alike."""
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind not in "fc":
        return False
    parts = [(a, b)] if a.dtype.kind == "f" else [(a.real, b.real), (a.imag, b.imag)]
    return all(np.array_equal(p, q, equal_nan=True) and np.array_equal(np.signbit(p)[p == p], np.signbit(q)[q == q]) for p, q in parts)


def chosen(every):
    """Every so-many-th call, by a number made of its name: the same on every run, and of all functions."""
    name = cache(public_name)
    for number, call in enumerate(calls()):
        if zlib.crc32(f"{name(call.fn)}{number}".encode()) % every == 0:
            yield call


def tried(call):
    """What `check` says, with warnings and floating-point errors of both sides ignored."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return check(call)


if __name__ == "__main__":
    found, failed = Counter(), Counter()
    for call in chosen(int(sys.argv[1])):
        try:
            found[tried(call)] += 1
        except Exception as error:
            found["wrong"] += 1
            name = public_name(call.fn)
            failed[name] += 1
            if failed[name] <= 3:
                lines = traceback.format_exc().splitlines()
                text = (
                    str(error)
                    if isinstance(error, AssertionError)
                    else f"{call}: {type(error).__name__}: {error} at {lines[-4].strip()[-60:]}"
                )
                print(text[:420], flush=True)
    print(dict(found), "of", sum(found.values()))
    print(failed.most_common())
