"""The compiled short paths give what the general path gives, bit for bit, on every kind of operand."""

import itertools
import operator
import subprocess
import sys

import numpy as np
import pytest

from checkpoint import grad, vjp
from dualad import Dual, derivative, gradient, jvp, primal
from dualad.core.levels import Level
from dualad.forward.dual import make_dual
from dualad.rules import ROWS
from dualad.rules.kinds import Elementwise

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]
#: plain partners of a Dual scalar, and of a Dual array of shape (3,)
A = np.array([0.5, 1.5, 2.5])
PARTNERS = [
    2, 2.0, -2, 0.5, 0, True, np.float64(2.0), np.float32(2.0), np.int64(3), A, A.astype(np.float32), A[:1], A[:, None], np.arange(3),
    np.array(2.0), 1j, np.complex128(2 + 1j), A + 1j,
]  # fmt: skip


def bits(dual):
    """Everything that can be told of a result: array or scalar, dtypes, shapes, values."""
    if not isinstance(dual, Dual):
        return repr(dual)
    return [
        (type(part) is np.ndarray, np.asarray(part).dtype, np.shape(part), np.asarray(part).tobytes()) if part is not None else None
        for part in (dual.primal, dual.tangent)
    ]


def general(f, level, *duals):
    """Evaluate on the general path: a level that is not plain takes no short cut."""
    plain, level.plain = level.plain, False
    try:
        return f(*duals)
    finally:
        level.plain = plain


def operands(level):
    lanes = () if level.directions is None else (level.directions,)
    random = np.random.default_rng(1)
    yield "scalar", lambda: make_dual(1.5, 0.3 if not lanes else random.standard_normal(lanes), level)
    yield "constant scalar", lambda: make_dual(1.5, None, level)
    yield "zero", lambda: make_dual(0.0, 0.3 if not lanes else random.standard_normal(lanes), level)
    yield "array", lambda: make_dual(A.copy(), random.standard_normal((*lanes, 3)), level)
    yield "constant array", lambda: make_dual(A.copy(), None, level)
    yield "matrix", lambda: make_dual(np.ones((3, 3)), random.standard_normal((*lanes, 3, 3)), level)
    yield "single", lambda: make_dual(A.astype(np.float32), random.standard_normal((*lanes, 3)).astype(np.float32), level)
    yield "complex", lambda: make_dual(A + 1j, random.standard_normal((*lanes, 3)) + 1j, level)


LEVELS = {"one direction": None, "K = 1": 1, "K = 3": 3}


@pytest.mark.parametrize("lanes", LEVELS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_two_duals(op, lanes):
    with Level(LEVELS[lanes]) as level, np.errstate(all="ignore"):
        for (left, a), (right, b) in itertools.product(operands(level), operands(level)):
            x, y = a(), b()
            assert bits(op(x, y)) == bits(general(op, level, x, y)), f"{left}, {right}"


@pytest.mark.parametrize("lanes", LEVELS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_a_dual_and_a_plain_operand(op, lanes):
    with Level(LEVELS[lanes]) as level, np.errstate(all="ignore"):
        for (left, a), other in itertools.product(operands(level), PARTNERS):
            x = a()
            assert bits(op(x, other)) == bits(general(op, level, x, other)), f"{left}, {other!r}"
            assert bits(op(other, x)) == bits(general(lambda x: op(other, x), level, x)), f"{other!r}, {left}"


@pytest.mark.parametrize("lanes", LEVELS)
def test_unary_functions(lanes):
    with Level(LEVELS[lanes]) as level, np.errstate(all="ignore"):
        unary = [
            row.fn
            for row in ROWS.values()
            if isinstance(row, Elementwise) and row.fn in vars(np).values() and isinstance(row.fn, np.ufunc) and row.fn.nin == 1
        ]
        for fn, (name, a) in itertools.product([operator.neg, operator.pos, abs, *unary], operands(level)):
            x = a()
            if fn in (np.fabs, np.cbrt, np.deg2rad, np.rad2deg, np.radians, np.degrees) and name == "complex":
                continue  # NumPy has no complex loop for them
            assert bits(fn(x)) == bits(general(fn, level, x)), f"{fn}, {name}"


@pytest.mark.parametrize("lanes", LEVELS)
def test_indexing(lanes):
    with Level(LEVELS[lanes]) as level:
        for name, a in operands(level):
            x = a()
            if x.ndim:
                for index in (
                    0, -1, slice(1, None), slice(None, None, -1), (0,), Ellipsis, None, [0, 1], (slice(None),), (slice(1),),
                    np.array([True, False, True]),
                ):  # fmt: skip
                    assert bits(x[index]) == bits(general(lambda x: x[index], level, x)), f"{name}, {index}"


@pytest.mark.parametrize("lanes", LEVELS)
def test_linear_functions(lanes):
    with Level(LEVELS[lanes]) as level:
        for fn, (name, a) in itertools.product([np.sum, np.cumsum, np.flip, np.copy, np.ravel, np.transpose], operands(level)):
            x = a()
            if x.ndim:
                assert bits(fn(x)) == bits(general(fn, level, x)), f"{fn.__name__}, {name}"


def test_levels_are_checked_on_the_short_paths():
    with Level() as outer:
        x = make_dual(2.0, 1.0, outer)
        with Level() as inner:
            y = make_dual(3.0, 1.0, inner)
            for z in (x * y, y * x):
                assert z.level is inner and z.tangent.level is outer and z.tangent.primal == 2.0
    with pytest.raises(RuntimeError, match="after the derivative call"):
        x * x


def test_operands_of_a_written_array_take_the_general_path():
    with Level() as level:
        x = make_dual(A.copy(), np.ones(3), level)
        x[0] = 9.0
        y = x * 2.0
        x[1] = 7.0
        assert y.primal.tolist() == [18.0, 3.0, 5.0] and x.primal.tolist() == [9.0, 7.0, 2.5]
        z = x + 0.0
        z[0] = 1.0
        assert x.primal[0] == 9.0


def test_infinities_and_overflow_of_python_floats_are_those_of_numpy():
    with np.errstate(all="ignore"):
        for f, x in (
            (lambda x: 1.0 / x, 0.0),
            (lambda x: x / x, 0.0),
            (lambda x: x**-1, 0.0),
            (lambda x: x**-0.5, 0.0),
            (lambda x: x**0.5, -1.0),
            (lambda x: x * x, 1e200),
            (lambda x: x**3, 1e200),
            (lambda x: 0.0**x, 0.0),
            (lambda x: 2.0**x, 5000.0),
            (lambda x: x**x, 0.0),
            (lambda x: -(x**-2), 0.0),
        ):
            got, expected = jvp(f, (x,), (1.0,)), jvp(f, (np.array([x]),), (np.ones(1),))
            np.testing.assert_array_equal(np.array(got), np.concatenate(expected), err_msg=str(x))
            got = derivative(f, 2)(x)
            np.testing.assert_array_equal(got, derivative(lambda y, f=f, x=x: np.sum(f(np.array([x]) + y)), 2)(0.0), err_msg=str(x))


def test_division_by_zero_warns_as_numpy_does():
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        derivative(lambda x: 1.0 / x)(0.0)


def test_foreign_operands_get_their_turn():
    class Other:
        def __radd__(self, other):
            return "other"

        def __add__(self, other):
            return "other"

        __array_ufunc__ = None

    seen = []
    derivative(lambda x: seen.append((x + Other(), Other() + x)) or x)(1.0)
    assert seen == [("other", "other")]
    with pytest.raises(TypeError, match="unsupported operand"):
        derivative(lambda x: x + "a")(1.0)
    with pytest.raises(TypeError):
        derivative(lambda x: x * None)(1.0)


def test_a_subclass_of_ndarray_and_lists_as_operands():
    np.testing.assert_array_equal(gradient(lambda x: np.sum(x * [1.0, 2.0, 3.0]))(A), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(gradient(lambda x: np.sum([1.0, 2.0, 3.0] * x))(A), [1.0, 2.0, 3.0])
    masked = np.ma.masked_array(A, [False, True, False])
    with pytest.raises(TypeError):
        jvp(lambda x: masked * x, (A,), (A,))


def test_sources_of_the_short_paths_show_in_tracebacks_and_warnings():
    import linecache

    huge = np.full(3, 1e200)
    for verb in (gradient, grad):
        with pytest.warns(RuntimeWarning, match="overflow") as caught:
            verb(lambda x: np.sum(x * x))(huge)
        assert "a * b" in linecache.getline(caught[0].filename, caught[0].lineno), "each mode has a source of its own"


def test_operators_are_compiled_once_when_they_are_first_used():
    code = (
        "import numpy as np, dualad, dualad.forward.generated as o, checkpoint\n"
        "made, compile_method = [], o.compile_method\n"
        "o.compile_method = lambda *args, **space: made.append(args[:2]) or compile_method(*args, **space)\n"
        "for verb in (dualad.derivative, checkpoint.grad):\n"
        "    for _ in range(3):\n"
        "        assert verb(lambda x: np.float64(2.0) * x + x * x)(3.0) == 8.0\n"
        "assert made and len(made) == len(set(made)), made\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


NUMBERS = [0.0, -0.0, 1.0, -2.5, 3.0, float("inf"), float("-inf"), float("nan"), 5e-324, 2.0**53]


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne])
def test_comparisons_of_numbers_are_numpys(compare):
    others = [*NUMBERS, 0, 3, -1, 2**53, 2**53 + 1, 10**20, True, np.float64(3.0), np.float32(3.0), np.int64(3)]
    for differentiate in (gradient, grad):
        for a in NUMBERS:

            def f(x, a=a):
                for b in others:
                    got, expected = (compare(x, b), compare(b, x)), (compare(np.float64(a), b), compare(b, np.float64(a)))
                    assert got == expected and [type(r) for r in got] == [np.bool_, np.bool_], (a, b)
                    y = x + (b - x) if isinstance(b, float) and np.isfinite(b - a) else None
                    assert y is None or compare(x, y) == compare(a, primal(y))
                return x

            differentiate(f)(a)


@pytest.mark.parametrize("dtype", [complex, np.complex128, np.complex64, np.float64, np.float32])
def test_numbers_are_rounded_as_the_operators_of_their_kind_round(dtype):
    functions = [
        operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, lambda x, y: x * (0.3 - 1j), lambda x, y: 1.7**y,
        lambda x, y: (0.3 - 1j) * x, lambda x, y: x**3, lambda x, y: x.conjugate() * x, lambda x, y: y / 3, lambda x, y: abs(x) * abs(y),
    ]  # fmt: skip
    random = np.random.default_rng(0)
    pairs = random.uniform(0.5, 2.0, (60, 2))
    for x, y in pairs if dtype in (np.float64, np.float32) else pairs + 1j * pairs[::-1]:
        x, y = dtype(x), dtype(y)
        for k, f in enumerate(functions):
            nested = jvp(lambda x, y: jvp(f, (x, y), (x, y))[0], (x, y), (x, y))[0]
            for value in (jvp(f, (x, y), (x, y))[0], nested, vjp(f, x, y)[0]):
                expected = np.asarray(f(x, y))
                assert np.asarray(value).dtype == expected.dtype and np.asarray(value).tobytes() == expected.tobytes(), k


@pytest.mark.filterwarnings("ignore:(overflow|invalid value|divide by zero)")
def test_powers_of_pythons_complex_numbers_that_overflow_are_numpys():
    z = 1e308 + 1e308j
    for f in (lambda z: 2.0**z, lambda z: z**1e308):
        with pytest.raises(OverflowError):
            f(z)
        expected = np.asarray(f(np.complex128(z)))
        for value in (jvp(f, (z,), (z,))[0], vjp(f, z)[0]):
            np.testing.assert_array_equal(value, expected)


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero)")
@pytest.mark.parametrize("x", [2.0, 2.0 + 1.0j, np.complex128(2.0)])
def test_a_number_over_a_complex_zero_is_numpys(x):
    value, tangent = jvp(lambda x: x / 0j, (x,), (1.0,))
    np.testing.assert_array_equal(value, np.complex128(x) / 0j)
    assert not np.isfinite(tangent)
