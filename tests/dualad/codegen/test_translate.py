"""Translated functions against numba's compilation of the same text, and against Python's evaluation of it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from emitted_examples import SOURCES
from interpreted import traced

numba = pytest.importorskip("numba")

from checkpoint import vjp  # noqa: E402
from dualad import jvp  # noqa: E402
from dualad.codegen import cache, kernels, scalars  # noqa: E402
from dualad.codegen import entry as machine  # noqa: E402
from dualad.codegen.emit import HEADER  # noqa: E402
from dualad.codegen.llvm import Untranslatable  # noqa: E402
from dualad.codegen.native import compile_numba, kind_of  # noqa: E402
from dualad.codegen.native import compiled as either  # noqa: E402
from dualad.loops.maps import COMPLEX, MAPS  # noqa: E402

HEAD = f"{HEADER}\n\n@njit(**OPTIONS)\n"


def both(module, text, name, kinds):
    """Return a function as it is translated, and as numba compiles it."""
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*args):
            raise Untranslatable

        translated = machine.compiled(module, text, name, kinds)
        patch.setattr(machine, "compiled", refuse)
        return translated, either(module, text, name, kinds)


def filled(rng, kind):
    """Return a random argument of a kind."""
    shape, dtype = kind if isinstance(kind, tuple) else ((), kind)
    values = rng.integers(0, 2, shape) if np.dtype(dtype).kind in "bi" else rng.uniform(0.2, 1.5, shape)
    array = np.array(values, dtype)
    return array if isinstance(kind, tuple) else array.item()


@pytest.mark.parametrize("name", SOURCES)
def test_emitted_programs_as_numba_compiles_them(name):
    native = compile_numba(SOURCES[name])
    rng = np.random.default_rng(3)
    for k, nodes in enumerate(native.emitted.parts.values()):
        kinds = list(map(kind_of, nodes))
        arguments = [filled(rng, kind) for kind in kinds]
        results = []
        for function in both(native.module, native.source, f"part{k}", kinds):
            given = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
            function(*given)
            results.append(given)
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a, b)


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, 0.5, -2.5, 3.0, 1e-17, 2.0**52, 1e9]
FUNCTIONS = {
    "kernels": [f"{name}(x)" for name in (*sorted(set(kernels.PRECISE) - {"cube"}), "any_sin", "any_cos", "any_tan")],
    "scalars": [
        *(f"{name}(x)" for name in ("sign", "is_finite", "is_infinite", "root_above_one")),
        *(f"{name}(x, y)" for name in ("fmax", "fmin", "maximum", "minimum", "remainder", "floor_divide", "ratio", "strong_multiply")),
        *(f"{name}(x, y)" for name in ("heaviside", "turn", "sech_squared", "exp_of_expm1")),
        *(f"{name}(x, y, z)" for name in ("clip", "larger_share", "fmax_share", "softmax_share")),
    ],
    "libraries": [
        *(f"math.{name}" for name in ("sqrt(x)", "copysign(x, y)")),
        *(f"np.{name}(x, y)" for name in ("hypot", "arctan2", "fmod")),
        *(f"np.{name}(x)" for name in ("floor", "ceil", "trunc", "rint", "arcsin", "arccos", "arcsinh", "arccosh", "arctanh", "exp2")),
        *(f"np.{name}(x)" for name in ("log2", "log10", "float32")),
    ],
    "operators": ["abs(x)", "-x", "not x", "x ** y", "choose(x > 0.0, y, z) + y", "(x <= y) | (x != z)", "y if x else z", "1 / (x == y)"],
}


@pytest.mark.parametrize("group", FUNCTIONS)
def test_functions_of_numbers_as_numba_compiles_them(group):
    calls = FUNCTIONS[group]
    text = f"{HEAD}def part0(outs, xs, ys, zs):\n    for i in range(4096):\n        x = xs[i]\n        y = ys[i]\n        z = zs[i]\n"
    text += "".join(f"        outs[{k}, i] = {call}\n" for k, call in enumerate(calls))
    rng = np.random.default_rng(7)
    special = np.repeat(SPECIAL, 256), np.tile(np.repeat(SPECIAL, 16), 16), np.tile(SPECIAL, 256)
    scattered = [rng.standard_normal(4096) * 10.0 ** rng.integers(-8, 8, 4096) for _ in range(3)]
    functions = both(cache.load(text), text, "part0", [((len(calls), 4096), "float64"), *[((4096,), "float64")] * 3])
    for arguments in (special, scattered):
        results = [np.empty((len(calls), 4096)) for _ in functions]
        for function, outs in zip(functions, results, strict=True):
            function(outs, *arguments)
        for call, a, b in zip(calls, *results, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=call)
            np.testing.assert_array_equal(np.signbit(a[a == a]), np.signbit(b[b == b]), err_msg=call)


def test_the_language_as_python_has_it():
    """Integers, booleans, branches, loops backwards, tables, whole rows, views in another shape."""
    text = HEAD + (
        "def part0(n, flag, a, b, c, m):\n"
        "    s = 0.0\n"
        "    last = n\n"
        "    v = a.reshape((6, 2))\n"
        "    for k in range(n - 1, -1, -1):\n"
        "        last = (last * 3 + k) & 255 if k > 2 else last | (k << 2)\n"
        "        if flag:\n"
        "            s += v[k, 1] * k\n"
        "        else:\n"
        "            s -= v[k, 0] / (k + 1)\n"
        "        for r in TABLE[0:2]:\n"
        "            for j in range(r[0], r[1]):\n"
        "                b[j, 0] = s + j\n"
        "    r1 = b[1, 0:3]\n"
        "    r2, r3 = b[2], a[0, 1:4]\n"
        "    for j in range(3):\n"
        "        r1[j] = r2[j] + r3[j]\n"
        "    r2 += r1\n"
        "    r1, r2 = r2, r1\n"
        "    r1[...] = r2\n"
        "    m[0] = not flag\n"
        "    m[1] = (last > 3) & (s < 1.0)\n"
        "    m[2] = 1.0\n"
        "    c[()] = last + ~last * (last ^ 5) - (last >> 1)\n"
        "    a[2] = 7\n"
    )
    text = text.replace("@njit", "TABLE = np.array([[0, 2], [3, 4]])\n@njit")
    module = cache.load(text)
    kinds = ["int64", "bool", ((3, 4), "float64"), ((4, 3), "float64"), ((), "int64"), ((3,), "bool")]
    function = machine.compiled(module, text, "part0", kinds)
    rng = np.random.default_rng(0)
    for n in range(1, 6):
        for flag in (False, True):
            arrays = rng.uniform(-1, 1, (3, 4)), rng.uniform(-1, 1, (4, 3)), np.array(0), np.zeros(3, bool)
            expected = [np.array(x) for x in arrays]
            assert function(n, flag, *arrays) is None
            module.part0.py_func(n, flag, *expected)
            for a, b in zip(arrays, expected, strict=True):
                np.testing.assert_array_equal(a, b)


INDEXED = HEAD + "def part0(a, i, n):\n    p = at_least_inside(i[0], 3)\n    a[p] = n\n"


def test_what_is_wrong_raises():
    function = machine.compiled(cache.load(INDEXED), INDEXED, "part0", [((3,), "float64"), ((1,), "int64"), "float64"])
    a = np.zeros(3)
    for place in (2, -1, 0):
        function(a, np.array([place]), 1.0 + place)
        assert a[place] == 1.0 + place
    for place in (3, -4):
        with pytest.raises(IndexError, match="out of bounds"):
            function(a, np.array([place]), 1.0)
    for wrong in ((a, np.array([0])), (a, np.array([0]), 1.0, 2.0), ([0.0], np.array([0]), 1.0), (a, None, 1.0)):
        with pytest.raises(TypeError, match="not compiled for"):
            function(*wrong)
    with pytest.raises(TypeError, match="real number"):
        function(a, np.array([0]), "1.0")


def test_arguments_are_given_back():
    function = machine.compiled(cache.load(INDEXED), INDEXED, "part0", [((3,), "float64"), ((1,), "int64"), "float64"])
    a, i, n = np.zeros(3).view(type("Array", (np.ndarray,), {})), np.array([1]), np.float64(2.5)
    before = [sys.getrefcount(x) for x in (a, i, n)]
    for _ in range(1000):
        function(a, i, n)
    assert [sys.getrefcount(x) for x in (a, i, n)] == before and a[1] == 2.5


@pytest.mark.parametrize("line", ["y[0] = x[0] ** 2 if x[0] else 1j", "y[0] = np.logaddexp(x[0], 1.0)", "y[:] = x[::2]", "print(x[0])"])
def test_what_has_no_translation_is_refused(line):
    text = f"{HEAD}def part0(x, y):\n    {line}\n"
    with pytest.raises(Untranslatable):
        machine.compiled(cache.load(text), text, "part0", [((2,), "float64"), ((1,), "float64")])
    with pytest.raises(Untranslatable):
        machine.compiled(cache.load(text), text, "part0", [((2,), "complex128"), ((1,), "float64")])


def test_every_function_of_scalars_is_translated():
    functions = {name: thing.py_func for name, thing in vars(scalars).items() if hasattr(thing, "py_func")}
    for name in [name for name in functions if not name.startswith("exact_")]:  # which raise: numba compiles them
        count = vars(scalars)[name].py_func.__code__.co_argcount
        whole = "x" if name.endswith("_of") else "x[0]"
        given = ", ".join(["1", "2"][:count] if name.startswith(("at_least", "exact")) else [whole] * count)
        text = f"from dualad.codegen.scalars import {name}\n\n\n{HEAD}def part0(x, y):\n    y[0] = {name}({given})\n"
        kinds = [((9,), dtype) for dtype in DTYPES.get(name, ("float64", "float64"))]
        machine.compiled(cache.load(text), text, "part0", kinds)


DTYPES = {
    "complex_quotient": ("complex128", "complex128"), "complex_reciprocal": ("complex128", "complex128"),
    "complex_magnitude": ("complex128", "float64"), "complex_turn": ("float64", "complex128"),
}  # fmt: skip


# --- complex numbers --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def without_numba(monkeypatch):
    """Raise where something has no translation."""
    translated = machine.compiled

    def strict(*args):
        try:
            return translated(*args)
        except Untranslatable as error:
            raise AssertionError(f"numba would compile it: {error}") from error

    monkeypatch.setattr(machine, "compiled", strict)


COMPLEX_FUNCTIONS = [
    *(fn for fn, scalar in MAPS.items() if "c" in scalar.kinds and isinstance(fn, np.ufunc)),
    *(*COMPLEX, np.real, np.imag, np.conjugate, np.exp, np.cumsum),
]


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("fn", COMPLEX_FUNCTIONS, ids=lambda fn: fn.__name__)
def test_complex_numbers_are_numpys(fn, dtype, without_numba):
    rng = np.random.default_rng(5)
    scattered = [(rng.normal(size=499) + 1j * rng.normal(size=499)) * 10.0 ** rng.integers(-4, 2, 499) for _ in range(2)]
    both = [complex(x, y) for x in SPECIAL for y in SPECIAL]
    fused = vars(np._core._multiarray_umath)["__cpu_features__"].get("FMA3") and dtype is np.complex128 and fn is not np.exp
    special = np.repeat(both, len(both)), np.tile(both, len(both))
    for arguments in (scattered, *([special] if dtype is np.complex128 else [])):  # the other is computed in double precision
        with np.errstate(all="ignore"):
            given = [x.astype(dtype) for x in arguments][: getattr(fn, "nin", 1)]
            expected = fn(*given)
        (found,) = compile_numba(traced(fn, *given)).call(*given)
        assert found.dtype == expected.dtype
        if fused:
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-14 if dtype is np.complex128 else 2e-6, atol=1e-37)
        for part in (np.real, np.imag) if fn in BITWISE else ():
            x, y = part(found), part(expected)
            np.testing.assert_array_equal(np.signbit(x[x == x]), np.signbit(y[y == y]))


BITWISE = {np.add, np.subtract, np.multiply, np.divide, np.negative, np.square, np.reciprocal, np.conjugate, np.absolute}

WAVES = np.fft.fftfreq(60, 1 / 60)


def stiff(v):
    u = np.real(np.fft.ifft(v))
    return (v - 0.05j * WAVES * np.fft.fft(u * u)) / (1.0 - 0.1j * WAVES**3)


def split(v, c):
    v = v * np.exp(-0.1j * np.abs(v) ** 2)
    return np.where(np.abs(v) > 0.3, v, c * v.conj()), np.sum(v * v), v[::-1] @ v, np.roll(v, 2)[::3].imag


V = np.exp(1j * np.linspace(0.0, 2.0, 60)) * np.linspace(0.1, 1.0, 60)
SPECTRAL = {
    "stiff": (stiff, (V,)),
    "its pullback": (lambda v, g: vjp(stiff, v)[1](g), (V, V[::-1])),
    "split": (split, (V, 0.3 - 0.5j)),
    "its tangent": (lambda v, t: jvp(lambda v: split(v, 0.3)[0], (v,), (t,))[1], (V, V[::-1])),
    "straight code": (split, (V[:6], np.complex128(0.3 - 0.5j))),
    "single precision": (split, (V.astype(np.complex64), 0.3 - 0.5j)),
    "moments": (lambda v: (np.mean(v), np.var(v), np.std(v), np.linalg.norm(v), np.mean(np.outer(v, v), 0)), (V,)),
    "products": (lambda v: (np.outer(v, v)[:9] @ v, np.cumsum(v), v != v[::-1], -v), (V,)),
}


@pytest.mark.parametrize("name", SPECTRAL)
def test_spectral_steps_are_translated(name, without_numba):
    f, args = SPECTRAL[name]
    results = compile_numba(traced(f, *args)).call(*args)
    expected = f(*args)
    for a, b in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        single = np.asarray(b).dtype in (np.complex64, np.float32)
        np.testing.assert_allclose(a, b, rtol=2e-5 if single else 1e-12, atol=1e-6 if single else 1e-14)


def test_loops_over_tables_of_different_width():
    """As those of an array and of its rows, in one function."""
    text = (
        f"{HEADER}\n\nONE = np.array([[0, 2], [3, 5]])\nTWO = np.array([[0, 1, 0, 2], [1, 2, 1, 3]])\n\n@njit(**OPTIONS)\n"
        "def part0(x, y):\n    for b in ONE[:]:\n        for i0 in range(b[0], b[1]):\n            y[i0] = x[i0]\n"
        "    for b in TWO[:]:\n        for i0 in range(b[0], b[1]):\n            for i1 in range(b[2], b[3]):\n"
        "                y[i0] += 10.0 * x[i1]\n"
    )
    x, y = np.arange(1.0, 7.0), np.zeros(6)
    machine.compiled(cache.load(text), text, "part0", [((6,), "float64")] * 2)(x, y)
    np.testing.assert_array_equal(y, [1.0 + 30.0, 2.0 + 50.0, 0.0, 4.0, 5.0, 0.0])
