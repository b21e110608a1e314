"""Random programs with branches, masks and library calls, compiled: against plain NumPy and eager derivatives.

A line may be several: an ``if`` with its arms, a loop, a mask and what is done with it. Thresholds are random numbers, so no comparison is
as near as rounding; other arguments than the first take other branches.
"""

import re
import warnings
from contextlib import suppress
from functools import cached_property
from typing import ClassVar
from unittest.mock import patch

import numpy as np
from programs import Program, axis, number, threshold

from checkpoint import chain, grad
from dualad import jit, jvp
from dualad.jit import tracing
from dualad.jit.compiled import Compiled

SIZES = [(6,), (4,), (9,), (2, 3), (3, 3), (1, 4), (5, 2)]
DTYPES = [np.float64] * 6 + [np.float32, np.complex128]
ARGUMENTS = 4

#: what may round otherwise than in NumPy: own kernels and eliminations, sums in another order, moduli of complex numbers by their layout
ROUNDED = ("sin", "cos", "exp", "tanh", "log", "gamma", "sum", "mean", "**", "@", "convolve", "norm", "trapezoid", "linalg", "fft2")


def level(r, v):
    """Return a threshold among the elements of a value."""
    return f"{r.uniform(np.min(np.real(v)), np.max(np.real(v))) + 0.1 * r.normal():.9f}"


def between(r, values):
    """Return the middle of two neighbours among some numbers."""
    k = int(r.integers(len(values) - 1))
    return sum(sorted(values)[k : k + 2]) / 2


ARITHMETIC = [
    lambda r, a, v, b, w: f"{a} * {number(r)} + {b}",
    lambda r, a, v, b, w: f"{number(r)} - {a} * {b}",
    lambda r, a, v, b, w: f"{a} / (1.5 + {b} * {b})" if np.isrealobj(w) else f"{a} / (2.5 + {b})",
    lambda r, a, v, b, w: f"np.sin({a}) * {b}",
    lambda r, a, v, b, w: f"np.exp(-{a} * {a}) + {b}",
    lambda r, a, v, b, w: f"np.roll({a}, 1) - {b}",
    lambda r, a, v, b, w: f"{a} ** 3 * 0.3",
    lambda r, a, v, b, w: f"{a} - np.mean({a})",
    lambda r, a, v, b, w: f"np.cumsum({a}, axis={axis(r, v)}) * 0.3",
    lambda r, a, v, b, w: f"{a} * c + {number(r)}",
    lambda r, a, v, b, w: f"np.abs({a}) * {b}",
    lambda r, a, v, b, w: f"np.real({a}) + 0.5 * {b}",
    lambda r, a, v, b, w: f"np.sum({a}) * 0.2 + {b}",
    lambda r, a, v, b, w: f"{a}[::-1] * {number(r)}",
]
REAL = [
    lambda r, a, v, b, w: f"np.where({a} > {level(r, v)}, {a}, {b} * 0.5)",
    lambda r, a, v, b, w: f"np.maximum({a}, {b} + {threshold(r)})",
    lambda r, a, v, b, w: f"np.clip({a}, -0.7123, 0.8131)",
    lambda r, a, v, b, w: f"np.max({a}) * {b}",
]
LIBRARY = [
    lambda r, a, v, b, w: f"np.fft.irfft(np.fft.rfft({a}), {np.shape(v)[-1]}) * {b}",
    lambda r, a, v, b, w: f"np.real(np.fft.ifft(np.fft.fft({a}, axis={axis(r, v)}) * {number(r)}, axis={axis(r, v)}))",
    lambda r, a, v, b, w: f"np.abs(np.fft.fft2(np.atleast_2d({a}))) * 0.2",
    lambda r, a, v, b, w: f"np.linalg.solve(2.0 * np.eye({len(v)}) + 0.1 * np.outer({a}.ravel()[:{len(v)}], c.ravel()[:{len(v)}]), {b})",
    lambda r, a, v, b, w: f"np.linalg.inv(3.0 * np.eye({len(v)}) + 0.2 * np.outer({a}.ravel()[:{len(v)}], c.ravel()[:{len(v)}]))",
    lambda r, a, v, b, w: f"np.linalg.det(2.0 * np.eye(3) + 0.1 * np.outer({a}.ravel()[:3], c.ravel()[:3])) * {b}",
    lambda r, a, v, b, w: f"np.linalg.cholesky(2.0 * np.eye(3) + 0.1 * np.outer({a}.ravel()[:3], {a}.ravel()[:3].conj()))",
    lambda r, a, v, b, w: f"np.linalg.qr(np.eye(3) + 0.3 * np.outer({a}.ravel()[:3], c.ravel()[:3]))[1]",
    lambda r, a, v, b, w: f"np.linalg.eigvalsh(np.diag([1.0, 2.0, 4.0]) + 0.1 * np.outer({a}.ravel()[:3], {a}.ravel()[:3].conj()))",
    lambda r, a, v, b, w: f"np.linalg.svd(np.diag([1.0, 2.0, 4.0]) + 0.1 * np.outer({a}.ravel()[:3], c.ravel()[:3]), compute_uv=False)",
    lambda r, a, v, b, w: f"np.convolve({a}.ravel(), [0.25, 0.5, 0.25], mode={str(r.choice(['full', 'same', 'valid']))!r})",
    lambda r, a, v, b, w: f"np.linalg.norm({a}) * {b}",
]
REAL_LIBRARY = [
    lambda r, a, v, b, w: f"np.sort({a}, axis={axis(r, v)}) * {number(r)}",
    lambda r, a, v, b, w: f"np.take({b}.ravel(), np.argsort({a}.ravel()))",
    lambda r, a, v, b, w: f"np.median({a}, axis={axis(r, v)}) + {number(r)} * np.median({b})",
    lambda r, a, v, b, w: f"np.quantile({a}, 0.3) * {b}",
    lambda r, a, v, b, w: f"np.partition({a}.ravel(), 1)[:2]",
    lambda r, a, v, b, w: f"np.interp({a}, [-2.0, -0.5, 0.1, 0.9, 3.0], [0.3, -0.2, 0.5, 0.1, 0.7]) + {b}",
    lambda r, a, v, b, w: f"np.interp({number(r)}, np.linspace(-1.0, 1.0, {np.size(v)}), {a}.ravel())",
    lambda r, a, v, b, w: f"np.linspace(-0.8, 0.9, 5)[np.clip(np.searchsorted(np.linspace(-0.8, 0.9, 5), {a}), 0, 4)] * {b}",
    lambda r, a, v, b, w: f"np.take(np.linspace(-0.8, 0.9, 5), np.clip((4 * np.abs({a})).astype(int), 0, 4)) * {a}",
    lambda r, a, v, b, w: f"{b}.ravel()[np.argmax({a}.ravel())] * {a}",
    lambda r, a, v, b, w: f"np.bincount(np.clip((3 * np.abs({a})).astype(int).ravel(), 0, 3), weights={a}.ravel(), minlength=4)",
    lambda r, a, v, b, w: f"erf({a}) * {b}",
    lambda r, a, v, b, w: f"gammaln(2.0 + {a} * {a}) * {number(r)}",
    lambda r, a, v, b, w: f"jv(1, {a}) + {b}",
    lambda r, a, v, b, w: f"np.trapezoid({a}, axis={axis(r, v)})",
]
#: whole lines; {new} is a new name
MASKS = [
    lambda r, a, v, b, w: f"m = {a} > {level(r, v)}\n{{new}} = {a} * {number(r)}\n{{new}}[m] *= {number(r)}",
    lambda r, a, v, b, w: f"m = {a} > {level(r, v)}\n{{new}} = {a} * 1.0\n{{new}}[m] = {{new}}[m] ** 2 + {threshold(r)}",
    lambda r, a, v, b, w: f"m = {a} < {level(r, v)}\n{{new}} = {b} * 1.0\n{{new}}[m] = {a}[m] * {number(r)}",
    lambda r, a, v, b, w: f"m = {a} < {level(r, v)}\n{{new}} = {b} * 0.5\n{{new}}[m] -= np.sin({a}[m]) * {b}[m]",
    lambda r, a, v, b, w: f"{{new}} = np.sum({a}[{a} > {level(r, v)}]) * {b}",
    lambda r, a, v, b, w: f"m = {b} > {level(r, w)}\n{{new}} = np.sum({a}[m] * {b}[m]) + {number(r)} * np.count_nonzero(m)",
    lambda r, a, v, b, w: f"m = {a} >= np.max({b}) - {number(r)}\n{{new}} = np.max({a}[m]) * {b} if np.any(m) else {b} * 0.1",
    lambda r, a, v, b, w: f"{{new}} = np.piecewise({a}, [{a} < {level(r, v)}], [lambda t: t * t, lambda t: t * {number(r)}])",
    lambda r, a, v, b, w: f"{{new}} = np.sum(np.extract({a} > {level(r, v)}, {b})) + {a}",
    lambda r, a, v, b, w: f"{{new}} = np.mean({a}[np.nonzero({a} > np.min({a}) + {number(r)} * 0.01)]) * {b} if np.size({a}) > 2 else {b}",
    lambda r, a, v, b, w: f"{{new}} = {a} * 1.0\n{{new}}[{{new}} > {level(r, v)}] = {number(r)}",
    lambda r, a, v, b, w: (
        f"m = ({a} > {level(r, v)}) & ({b} < {level(r, w)})\n{{new}} = {a} + {b}\n{{new}}[m] = np.sqrt({a}[m] ** 2 + 0.1)"
    ),
    lambda r, a, v, b, w: (
        f"{{new}} = np.zeros_like({a})\nnp.add.at({{new}}, np.argsort({a}.ravel())[:2] % {len(v)}, {number(r)} * np.max({b}))"
    ),
]
#: `{arm}` stands for an expression of the arrays
BRANCHES = [
    "if np.sum({a}) > {s}:\n    {new} = {arm}\nelse:\n    {new} = {arm}",
    "{new} = {a} * 0.9\nif np.max(np.abs({b})) > {t}:\n    {new} = {new} + {arm}",
    "if np.sum({a}) > {s} and np.sum({b}) < {t}:\n    {new} = {arm}\nelif not np.sum({b}) < {s}:\n    {new} = {arm}\n"
    "else:\n    {new} = {arm}",
    "{new} = {a}\nwhile np.sum(np.abs({new})) > {n}:\n    {new} = {new} * 0.6",
    "{new} = {a}\nfor i in range(6):\n    old, {new} = {new}, 0.5 * {new} + 0.1 * {b}\n"
    "    if np.max(np.abs({new} - old)) < 0.1 * {n}:\n        break",
    "assert np.all(np.isfinite({a}))\n{new} = {arm}",
    "{new} = min(np.sum({a}), {s}) * {b}",
    "{new} = max(np.max(np.abs({a})), np.max(np.abs({b}))) * {arm}",
    "if np.max(np.abs({a})) > 100.0:\n    raise FloatingPointError('diverged')\n{new} = {arm}",
    "def part(u):\n    if np.sum(u) > {s}:\n        return {arm}\n    return u * {n}\n"
    "{new} = part({a}) if np.sum({b}) < {t} else part({b})",
    "{new} = 0.5 * sum(np.abs(e) if np.abs(e) > {n} else e * e for e in {a}.ravel()[:3]) * {b}",
    "if np.all(np.abs({a}) < {n}):\n    {new} = {arm}\nelse:\n    {new} = {a}[::-1] * 0.5",
    "{new} = sum(({arm} for i in range(int(3.0 * np.max(np.abs({b}))) % 4)), {a} * 1.0)",
    "{new} = [np.sin, np.negative, np.square][int(np.floor(2.0 * np.max(np.abs({a})))) % 3]({b}) * {n}",
    "count = 0\n{new} = {b} * 1.0\nwhile count < 4 and np.sum({new}) < {t}:\n    {new} = {new} + 0.1 * {arm}\n    count = count + 1",
]  # fmt: skip

#: what a loop asks in each turn, of arrays {u}, {q}, a number {s} and the number {n} of turns so far; and which of them it may not change
HEADS = [
    ("while np.max(np.abs({u})) > {t} and {n} < {k}:", ""),
    ("while {n} < {k} and np.sum(np.abs({u})) > {t}:", ""),
    ("while {n} < {k} and ({s} > {t} or np.abs({u}.ravel()[0]) > {t}):", ""),
    ("while not np.all(np.abs({u}) < {t}):\n    {u} = {c} * {u} / (1.0 + np.abs({e}))", "u"),
    ("while {s} > {t}:\n    {s} = {s} * {c} / (1.0 + np.max(np.abs({u})))", "s"),
    ("while True:\n    if {n} > {k}:\n        break\n    if np.max(np.abs({u})) < {t}:\n        break", ""),
    ("for i{n} in range({k}):\n    if np.max(np.abs({u})) < {t}:\n        break", ""),
    ("for h in [0.5, 0.7, 0.9, 0.6, 0.8, 0.5, 0.4]:\n    {u} = {u} * h\n    if np.sum(np.abs({u})) < {t}:\n        break", ""),
]
#: lines of a turn by what they change; {e} is an expression of {u} and {q}, {c} a number below 1
TURNS = {
    "u": [
        "{u} = {c} * {u} + 0.3 * ({e}) / (1.0 + np.abs({e}))",
        "{u} = {c} * {u}",
        "{u} = {u} - 0.5 * {u} / (1.0 + {s} * {s})",
        "{u} *= {c}",
        "{u}, {q} = {c} * {q}, {u}",
        "{u} = {u} * 1.0\n{u}[0] = 0.5 * {u}[-1] + 0.1 * {s}",
        "{u} = {u} * (1.0 - 0.5 / ({n} + 1))",
        "if np.max(np.abs({u})) > {t}:\n    {u} = {u} * 0.5\nelse:\n    {u} = {c} * {u} + 0.1 * {q}",
        "if {s} > {t}:\n    {u} = {c} * {u} + 0.1 * ({e}) / (1.0 + np.abs({e}))",
        "m = np.abs({u}) > {t}\n{u} = {u} * 1.0\n{u}[m] = {u}[m] * 0.5 + 0.01",
        "{u} = np.where(np.abs({u}) > {t}, 0.5 * {u}, {c} * {q} / (1.0 + np.abs({q})))",
    ],
    "q": [
        "{q} = 0.5 * {q} + 0.3 * {u}",
        "{q} = {u}",
        "{q} = {q} + 0.1 * ({e}) / (1.0 + np.abs({e}))",
        "if {n} % 2:\n    {q} = {q} * 0.5 + {s} * 0.01",
        "{q} = {q} * 1.0\n{q}[-1] += 0.1 * np.sum({u})",
        "{q} = {q} * 1.0\nnp.add.at({q}, [0, -1, 0], 0.1 * {u}[0])",
        "m = np.abs({u}) < {t}\n{q} = {q} * 1.0\n{q}[m] = {u}[m] * {c}",
        "old, {q} = {q}, 0.4 * {q} + 0.1 * {u}\nif np.max(np.abs({q} - old)) < 0.02:\n    {q} = {q} * {c}",
    ],
    "s": [
        "{s} = 0.7 * {s} + 0.1 * np.max(np.abs({u}))",
        "{s} = min({s}, np.sum(np.abs({q}))) * 0.9",
        "{s} = {s} + 0.1 * np.sum(np.abs({u})[np.abs({u}) > {t}])",
        "{s} = {s} * 0.5 if {s} > {t} else {s} + 0.05",
        "{s} = 0.6 * {s} + [0.1, 0.2, 0.4][int(3.0 * np.max(np.abs({u}))) % 3]",
    ],
    "exit": [
        "if np.sum(np.abs({u})) < {t}:\n    break",
        "if {s} < 0.1 * {t}:\n    {s} = {s} + 0.5\n    break",
        "if np.max(np.abs({q})) > {t}:\n    {q} = 0.5 * {q}\n    continue",
        "if np.max(np.abs({u})) < 0.5 * {t}:\n    return {u} * 0.5, {q}, {s} + 1.0",
    ],
}

MAKERS = {"arithmetic": ARITHMETIC, "real": REAL, "library": LIBRARY, "real library": REAL_LIBRARY, "masks": MASKS}
OF_COMPLEX = ("arithmetic", "library", "branches", "loops")


class Branching(Program):
    """A random program with branches, masks and library calls, and several arguments."""

    sizes = SIZES
    weights: ClassVar = {"arithmetic": 3, "library": 2, "branches": 4, "real": 1, "real library": 3, "masks": 4}

    def grow(self, count):
        self.layout = self.constant_layout = "C"
        self.dtype = np.dtype(DTYPES[self.rng.integers(len(DTYPES))])
        super().grow(count)

    def argument(self, dtype=None, k=0):
        """Return argument number k."""
        draw = np.random.default_rng([self.seed, k])
        x = self.values if not k else draw.uniform(-1.0, 1.0, self.shape)
        x = x + 0.7j * draw.uniform(-1.0, 1.0, self.shape) if self.dtype.kind == "c" else x
        return x.astype(dtype or self.dtype)

    def space(self, x):
        from scipy.special import erf, gammaln, jv

        real = np.empty(0, self.dtype).real.dtype
        c, d = (a.astype(real) for a in self.constants)
        return {"np": np, "x": x, "c": c, "d": d, "erf": erf, "gammaln": gammaln, "jv": jv}

    @cached_property
    def function(self):
        """The lines as a function of x, which returns all that came of it."""
        lines = [line for text in self.lines for line in text.split("\n")]
        lines.append("return tuple(v for name, v in sorted(locals().items()) if name == 'x' or name[0] == 'v')")
        space = self.space(None)
        exec("\n    ".join(["def program(x):", *lines]), space)
        return space["program"]

    def run(self, x, trace=None):
        return self.function(x)

    def line(self, space, made):
        r = self.rng
        names = [name for name in space if name[0] in "xv" and isinstance(space[name], np.ndarray) and space[name].ndim]
        a = str(r.choice(names[-4:]))
        v = space[a]
        b = str(r.choice([name for name in names if space[name].shape == v.shape]))
        w = space[b]
        real = v.dtype.kind != "c" and w.dtype.kind != "c"
        weights = {makers: weight for makers, weight in self.weights.items() if real or makers in OF_COMPLEX}
        makers = str(r.choice(list(weights), p=np.array(list(weights.values())) / sum(weights.values())))
        new = f"v{made}"
        if makers in ("branches", "loops"):
            return (self.branch if makers == "branches" else self.looped)(a, v, b, w, new, real)
        line = MAKERS[makers][r.integers(len(MAKERS[makers]))](r, a, v, b, w)
        return line.replace("{new}", new) if "{new}" in line else f"{new} = {line}"

    def after(self, k):
        """Return the names after the lines so far, for argument number k."""
        space = self.space(self.argument(k=k))
        with np.errstate(all="ignore"):
            for line in self.lines:
                exec(line, space)
        return space

    def branch(self, a, v, b, w, new, real):
        """Return a line that branches on values."""
        r = self.rng
        text = str(r.choice([text for text in BRANCHES if real or not ("np.sum({" in text or "np.sum(u)" in text)]))
        arms = ARITHMETIC + (REAL if real else []) + (LIBRARY[:4] if r.random() < 0.3 else [])
        while "{arm}" in text:
            arm = arms[r.integers(len(arms))](r, a, v, b, w)
            text = text.replace("{arm}", f"({arm}) * {number(r)}", 1)
        spaces = [self.after(k) for k in range(ARGUMENTS)]
        s, t = (between(r, [float(np.sum(np.real(space[name]))) for space in spaces]) for name in (a, b))
        n = max(between(r, [float(np.max(np.abs(space[a]))) for space in spaces]), 0.05)
        return text.format(a=a, b=b, new=new, s=f"{s:.9f}", t=f"{t:.9f}", n=f"{n:.9f}")

    def looped(self, a, v, b, w, new, real):
        """Return a line that makes a loop, in a function of its own or not."""
        names = {"u": new, "q": f"{new}q", "s": f"{new}s", "n": "n0"}
        space = self.space(None) | {"u": v, "q": w}
        own = bool(self.rng.random() < 0.4)
        text = self.loop(space, dict.fromkeys("uqs", 0) | {k: k for k in "uqs"} | {"n": "n0"} if own else names, real, own)
        start = f"{a} * 1.0, {b} * 0.9, np.max(np.abs({a}))"
        if not own:
            return "{u}, {q}, {s} = {start}\n".format(**names, start=start) + text
        inner = indented(f"{text}\nreturn u, q, s")
        return "def part(u, q, s):\n{inner}\n{u}, {q}, {s} = part({start})".format(**names, start=start, inner=inner)

    def loop(self, space, names, real, own, depth=0):
        """Return the text of a loop over the variables of these names."""
        r, u, q, s, n = self.rng, *(names[k] for k in "uqsn")
        arms = ARITHMETIC + LIBRARY + (REAL + REAL_LIBRARY if real else [])
        scale = float(np.max(np.abs(space["u"])))

        def expression():
            """Return one of the same shape."""
            while True:
                text = arms[r.integers(len(arms))](r, "u", space["u"], "q", space["q"])
                with suppress(Exception), warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("error")
                    if np.shape(eval(text, dict(space))) == np.shape(space["u"]):
                        return re.sub(r"\b[uq]\b", lambda m: names[m[0]], text)

        def filled(text):
            numbers = {"t": f"{scale * r.uniform(0.02, 0.9):.9f}", "c": f"{r.uniform(0.5, 0.95):.3f}", "k": int(r.choice([3, 6, 11]))}
            return text.format(**names, **numbers, e=expression() if "{e}" in text else "")

        head, fixed = HEADS[r.integers(len(HEADS))]
        pure = n not in filled(head) and "for" not in head
        lines = []
        for _ in range(r.integers(1, 4)):
            kind = str(r.choice(["u", "q", "s", "exit"], p=[0.4, 0.25, 0.2, 0.15]))
            some = [line for line in TURNS[kind] if (own or "return" not in line) and not (pure and "continue" in line)]
            lines += [filled(some[r.integers(len(some))])] * (kind != fixed)
        if not depth and r.random() < 0.3:
            inner = self.loop(space, names | {"u": "y", "n": "n1"}, real, own, 1)
            lines += [f"y = {u} * 1.5\n{inner}\n{q} = 0.5 * {q} + 0.2 * y"] * (fixed != "s")
        text = f"{n} = 0\n{filled(head)}\n" + indented("\n".join([f"{n} += 1", *lines]))
        if r.random() < 0.2:
            text += f"\nelse:\n    {s} = {s} + 0.25"
        return text + f"\n{s} = {s} + {n}" * bool(r.random() < 0.2)

    def fits(self, v):
        return isinstance(v, np.ndarray | np.generic) and 0 < np.size(v) < 100

    @property
    def rounded(self):
        """Whether compiled loops may round otherwise."""
        return self.dtype.kind == "c" or any(word in line for line in self.lines for word in ROUNDED)

    def __str__(self):
        return "\n".join([f"# seed {self.seed}: x of shape {self.shape}, {self.dtype}", *self.lines])


class Looping(Branching):
    """A random program whose loops end by tests; its arguments are of several sizes."""

    weights: ClassVar = {"arithmetic": 2, "library": 1, "branches": 1, "real": 1, "real library": 1, "masks": 1, "loops": 5}

    def grow(self, count):
        super().grow(1 + count % 3)

    def argument(self, dtype=None, k=0):
        return super().argument(dtype, k) * np.array([1.0, 0.3, 3.0, 9.0][k % 4]).astype(dtype or self.dtype)[()]


def indented(text):
    return "\n".join(f"    {line}" for line in text.split("\n"))


def close(a, b, rtol):
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    scale = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
    with np.errstate(all="ignore"):
        return bool(np.all((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= rtol * max(1.0, scale))))


def outcome(f, *args):
    """Return what a function returns, or the error that it raises."""
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except Exception as error:
        return error


def compared(what, expected, got, rtol, bits=None):
    """Return lines that say what differs: of values, whose `bits` are compared or not, the types, too."""
    if isinstance(expected, Exception) or isinstance(got, Exception):
        same = type(expected) is type(got)
        return [] if same else [f"{what}: {got!r} instead of {expected!r}"]
    pairs = list(zip(expected, got, strict=True)) if isinstance(expected, tuple) else [(expected, got)]
    found = []
    for k, (a, b) in enumerate(pairs):
        if bits is not None and (np.asarray(a).dtype != np.asarray(b).dtype or type(a) is not type(b)):
            found.append(f"{what}: result {k}: {type(b)} {np.asarray(b).dtype} instead of {type(a)} {np.asarray(a).dtype}")
        elif not (np.array_equal(a, b, equal_nan=True) if bits else close(b, a, rtol)):
            found.append(f"{what}: result {k}: {b!r} instead of {a!r}")
    return found


def compiled_differences(program, backend=None, deep=True):
    """Return what differs between a program and the compiled one: values, first and second derivatives, and as the step of a chain.

    Of every other program new paths are compiled at once.
    """
    calls = 3 * (program.seed % 2)
    with patch.object(tracing, "Compiled", lambda *args: Compiled(*args[:4], *(min(waits, calls) for waits in args[4:]))):
        return differences(program, backend, deep)


def differences(program, backend, deep):
    run, rng = program.function, np.random.default_rng(program.seed)
    compiled = jit(run, backend=backend)
    rtol = 2e-4 if program.dtype == np.float32 else 1e-9
    found = []
    for k in range(ARGUMENTS):
        expected = outcome(run, program.argument(k=k))
        got = outcome(compiled, program.argument(k=k))
        found += compared(f"value {k}", expected, got, rtol, bits=not program.rounded)
        if found or isinstance(expected, Exception):
            return found
    weights = [rng.standard_normal(np.shape(v)).astype(np.asarray(v).real.dtype) for v in expected]

    def loss(f):
        return lambda x: sum(np.sum(np.real(w * v)) for w, v in zip(weights, f(x), strict=True))

    def second(f):
        return lambda x, t: jvp(grad(loss(f)), (x,), (t,))[1]

    slopes = {"grad(jit)": grad(loss(compiled)), "jit(grad)": jit(grad(loss(run)), backend=backend)}
    products = {"jvp(grad(jit))": second(compiled), "jit(jvp(grad))": jit(second(run), backend=backend)}
    for k in range(ARGUMENTS if deep else 1):
        x, t = program.argument(k=k), rng.standard_normal(program.shape).astype(program.dtype)
        expected = outcome(grad(loss(run)), x)
        if not (isinstance(expected, Exception) or np.all(np.isfinite(expected))):
            continue
        for name, f in slopes.items():
            found += compared(f"{name} {k}", expected, outcome(f, x), rtol)
        expected = outcome(lambda x, t: jvp(run, (x,), (t,))[1], x, t)
        found += compared(f"jvp(jit) {k}", expected, outcome(lambda x, t: jvp(compiled, (x,), (t,))[1], x, t), rtol)
        if deep and program.dtype.kind == "f":
            expected = outcome(second(run), x, t)
            for name, f in products.items():
                found += compared(f"{name} {k}", expected, outcome(f, x, t), 100 * rtol)
        if found:
            return found
    return found + chain_differences(program, backend, rtol)


def chain_differences(program, backend, rtol):
    def step(k, x, p):
        last = next(v for v in program.run(x * p)[::-1] if np.shape(v) == program.shape)
        return (0.5 * last / (1.0 + np.abs(last)) + 0.2 * np.cos(k + 1.0) * x).astype(program.dtype)

    def run(step):
        return lambda x, p: np.sum(np.real(chain(step, x, p, steps=9)) * weights)

    weights = np.random.default_rng(program.seed).standard_normal(program.shape)
    x = program.argument()
    eager, made = (grad(run(s), argnums=(0, 1)) for s in (step, jit(step, backend=backend)))
    expected = outcome(eager, x, 1.1)
    if isinstance(expected, np.linalg.LinAlgError):  # perhaps of a call that nothing uses, which is left out
        return []
    if isinstance(expected, tuple) and not all(np.all(np.isfinite(part)) for part in expected):
        return []
    return compared("chain", expected, outcome(made, x, 1.1), 100 * rtol)
