"""Functions as they are compiled, against Python's evaluation of the same text and of the same kernels, bit for bit, and against NumPy."""

import inspect
import itertools

import numpy as np
import pytest
from comparing import close
from emitted_examples import SOURCES
from handmade import I, applied, compiled, filled, loop_of, module_of, python_of, variables
from interpreted import traced

pytest.importorskip("llvmlite")

from checkpoint import vjp
from dualad import jit, jvp
from dualad.codegen import arithmetic, kernels, machine, scalars, to_llvm
from dualad.codegen.machine import FUSES
from dualad.codegen.native import Native
from dualad.codegen.to_llvm import kernel
from dualad.ir.nodes import ArrayType, For, ForRows, Load, Store, Table, number
from dualad.ir.values import Value, call, op
from dualad.rules.kinds import ROWS, strong_multiply

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, 0.5, -2.5, 3.0, 1e-17, 2.0**52, 1e9]
REALS = {
    name: len(inspect.signature(getattr(room, name)).parameters)
    for room in (kernels, scalars)
    for name in room.__all__
    if name.islower()
    and name != "complex_turn"
    and not name.startswith(("any_", "complex_", "exact_", "at_least", "regular", "sum_of", "product_of", "multiply_add"))
}
COMPLEX_NUMBERS = ["complex_quotient", "complex_reciprocal", "complex_magnitude"]


def in_two_ways(name, arguments, result):
    """Return the results of a function for arrays of arguments, compiled and as Python computes them."""
    kernel = getattr(kernels, name, None) or getattr(scalars, name)
    with np.errstate(all="ignore"):
        expected = [kernel(*row) for row in zip(*arguments, strict=True)]
    return applied(name, *arguments, result=result), np.array(expected, result)


def same_bits(found, expected, message):
    np.testing.assert_array_equal(found, expected, err_msg=message)
    for part in (np.real, np.imag) if found.dtype.kind == "c" else (np.asarray,) if found.dtype.kind == "f" else ():
        x, y = part(found), part(expected)
        np.testing.assert_array_equal(np.signbit(x[x == x]), np.signbit(y[y == y]), err_msg=message)


@pytest.mark.skipif(not FUSES, reason="this processor has no instruction that multiplies and adds")
@pytest.mark.parametrize("name", sorted(REALS))
def test_functions_of_numbers_are_those_that_python_runs(name):
    rng = np.random.default_rng(7)
    special = np.array(list(itertools.product(SPECIAL[: 16 if REALS[name] < 3 else 7], repeat=REALS[name])))
    scattered = rng.standard_normal((100, REALS[name])) * 10.0 ** rng.integers(-8, 8, (100, REALS[name]))
    result = bool if name in ("is_finite", "is_infinite", "signbit", "large_angle") else float
    for rows in (special, scattered):
        if name in ("sin", "cos", "tan"):
            rows = rows[~(abs(rows[:, 0]) > kernels.LARGEST_ANGLE)]
        found, expected = in_two_ways(name, [np.ascontiguousarray(column) for column in rows.T], result)
        if name in ("exp2", "logaddexp2", "turn"):  # of the C library's functions
            np.testing.assert_allclose(found, expected, rtol=1e-15, atol=0.0)
        else:
            same_bits(found, expected, name)


@pytest.mark.skipif(not FUSES, reason="this processor has no instruction that multiplies and adds")
@pytest.mark.parametrize("name", COMPLEX_NUMBERS)
def test_functions_of_complex_numbers_are_those_that_python_runs(name):
    both = np.array([complex(x, y) for x in SPECIAL for y in SPECIAL])
    arguments = [np.repeat(both, 16), np.tile(both, 16)] if name == "complex_quotient" else [both]
    found, expected = in_two_ways(name, arguments, float if name == "complex_magnitude" else complex)
    same_bits(found, expected, name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["signbit", "nextafter", "spacing", "logaddexp", "logaddexp2"])
def test_functions_that_numpy_has_under_the_same_name(name, dtype):
    rng = np.random.default_rng(3)
    tiny = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny, np.finfo(dtype).max
    numbers = np.array([*SPECIAL[:7], *tiny, *(-x for x in tiny), 0.5, 2.0, 1e9, *rng.standard_normal(9)], dtype)
    pairs = [np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))]
    fn = getattr(np, name)
    arguments = pairs[: fn.nin]
    (found,) = Native(traced(fn, *arguments)).call(*arguments)
    with np.errstate(all="ignore"):
        expected = fn(*arguments)
    assert found.dtype == expected.dtype
    if name.startswith("log"):
        np.testing.assert_allclose(
            found, expected, rtol=4e-16 if dtype is np.float64 else 1e-7, atol=3e-16 if dtype is np.float64 else 1e-7
        )
    else:
        same_bits(found, expected, name)


INTEGERS = [np.dtype(f"{sign}int{width}") for sign in ("", "u") for width in (8, 16, 32, 64)]
OF_INTEGERS = [
    np.add, np.subtract, np.multiply, np.negative, np.positive, np.square, np.floor_divide, np.remainder, np.absolute, np.maximum,
    np.minimum, np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal, np.bitwise_and, np.bitwise_or,
    np.bitwise_xor, np.invert,
]  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_of_every_width_wrap_as_in_numpy(dtype):
    limits = np.iinfo(dtype)
    near = {limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7, 100, *([-1, -2, -7] * (limits.min < 0))}
    numbers = np.array(sorted(near), dtype)
    x, y = np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))

    def f(x, y):
        return tuple(fn(x, y) if fn.nin == 2 else fn(x) for fn in OF_INTEGERS)

    with np.errstate(all="ignore"):
        expected = f(x, y)
    native = Native(traced(f, x, y))
    assert "called" not in native.notes.replace("np.absolute", "") or limits.min == 0
    for fn, found, true in zip(OF_INTEGERS, native.call(x, y), expected, strict=True):
        assert found.dtype == true.dtype
        np.testing.assert_array_equal(found, true, err_msg=fn.__name__)


@pytest.mark.parametrize("other", ["int64", "uint64", "int16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "uint64", "bool", "float32"])
def test_dtypes_together_are_numpys(dtype, other):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 2 if kind == "bool" else 100, 40).astype(kind) for kind in (dtype, other))
    real = b.dtype.kind != "c"

    def f(a, b):
        yield from (a + b, a * b, a == b, np.where(b != 0, a, b), a.astype(other), np.sum(a), np.sum(a * b, dtype=other), np.cumsum(a))
        yield from (a < b, np.maximum(a, b), b.astype(dtype), np.max(a), np.min(b), a[::-1] >= b) if real else ()

    expected = list(f(a, b))
    found = Native(traced(lambda a, b: tuple(f(a, b)), a, b)).call(a, b)
    for x, y in zip(found, expected, strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=1e-6 if np.asarray(y).dtype in (np.float32, np.complex64) else 1e-14)


def assigned(x, k):
    y = x.copy()
    y[..., :1] = k
    return y


OF_AN_INTEGER = {
    "sum": lambda x, k: x + k,
    "product": lambda x, k: k * x,
    "bits": lambda x, k: x & k,
    "maximum": lambda x, k: np.maximum(x, k),
    "assigned": assigned,
}
COMPARED = [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "uint64"])
def test_integers_of_python_do_not_wrap_where_a_dtype_cannot_hold_them(dtype):
    """Of int8, ``5 < 300`` was False and ``5 + 300`` was 49: they are compared as they are, and refused otherwise."""
    x, last = np.arange(5, dtype=dtype), int(np.iinfo(dtype).max)
    beyond = (last + 1, -1 - last, -(1 << 63), (1 << 63) - 1)
    compare = lambda x, k: tuple(fn(x, k) for fn in COMPARED) + tuple(fn(k, x) for fn in COMPARED)
    call = Native(traced(compare, x, 3)).call
    for k in (3, last, *beyond):
        np.testing.assert_array_equal(call(x, k), compare(x, k))
        np.testing.assert_array_equal(Native(traced(lambda x, k=k: compare(x, k), x)).call(x), compare(x, k))
    for f in OF_AN_INTEGER.values():
        call = Native(traced(f, x, 3)).call
        for k in (0, 100, last):
            (found,) = call(x, k)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, f(x, k))
        for k in beyond:
            if not np.iinfo(dtype).min <= k <= last:
                with pytest.raises(OverflowError, match="Python int"):
                    call(x, k)


def test_numbers_of_every_dtype_are_arguments():
    numbers = [np.dtype(kind).type(3) for kind in (*INTEGERS, "f4", "f8", "c8", "c16")]
    numbers += [np.uint64(2**64 - 1), np.int8(-3), np.float32(0.1), np.complex64(0.1 - 2j), np.bool_(True), 5, 0.5, 1j, True]
    x = np.arange(4.0)
    for given in numbers:
        out = Native(traced(lambda x, n: (x * n, n + n), x, given)).call(x, given)
        with np.errstate(over="ignore"):
            expected = x * given, given + given
        for found, true in zip(out, expected, strict=True):
            assert np.asarray(found).dtype == np.asarray(true).dtype
            np.testing.assert_allclose(found, true, rtol=1e-6 if np.asarray(true).dtype in ("f4", "c8") else 1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex64])
def test_constants_are_what_they_are(dtype):
    x = np.array([0.1, 2.0], dtype)
    for constant in (np.nan, np.inf, -np.inf, 1e-40, -0.0, 3.4e38):
        np.testing.assert_array_equal(jit(lambda x: np.where(np.abs(x) > 1.0, x, dtype(constant)))(x), [dtype(constant), x[1]])


def of_integers(name):
    """Return a function of integers as machine code, which stores its result."""
    c, x, y = parameters = variables(c=((), "int64"), x="int64", y="int64")
    return compiled(parameters, Store(c, (), call(name, Value(x), Value(y), dtype="int64").node))


@pytest.mark.parametrize("name, x, y", [
    ("exact_sum", 2**63 - 1, 1), ("exact_difference", -(2**63), 1), ("exact_product", 2**32, 2**31), ("exact_power", 2, 63),
    ("exact_power", 3, 40), ("exact_power", 5, -1), ("exact_power", -3, 2**62), ("exact_quotient", 1, 0), ("exact_quotient", -(2**63), -1),
    ("exact_remainder", 1, 0),
])  # fmt: skip
def test_integers_of_python_beyond_64_bits_raise(name, x, y):
    function = of_integers(name)
    with pytest.raises(OverflowError, match="beyond 64 bits"):
        function(np.array(0), x, y)


DIVISIONS = ("exact_quotient", "exact_remainder")


@pytest.mark.parametrize("name, plain", [
    ("exact_power", pow), ("exact_quotient", int.__floordiv__), ("exact_remainder", int.__mod__), ("exact_sum", int.__add__),
    ("exact_product", int.__mul__), ("exact_difference", int.__sub__),
])  # fmt: skip
def test_integers_of_python_within_64_bits(name, plain):
    function = of_integers(name)
    pairs = [(7, 3), (-7, 3), (7, -3), (-7, -3), (0, 5), (2**62, 1), (-2, 63), *([(-(2**63), 7)] * (name in DIVISIONS))]
    if name == "exact_power":
        pairs = [(2, 62), (-2, 63), (3, 39), (-1, 2**62 + 1), (1, 2**63 - 1), (0, 0), (0, 2**40), (7, 0), (-1, 66), (5, 3)]
    for x, y in pairs:
        c = np.array(0)
        function(c, x, y)
        assert int(c) == plain(x, y) == getattr(scalars if name in scalars.__all__ else arithmetic, name)(x, y), (x, y)


@pytest.mark.parametrize("f", [lambda x: x**2j, lambda x: call("unknown", x, dtype="complex128")])
def test_what_has_no_translation_is_refused(f):
    (y,) = variables(y=((1,), "complex128"))
    with pytest.raises(NotImplementedError):
        compiled((y,), Store(y, (number(0),), f(Value(Load(y, (number(0),)))).node))


def test_what_two_expressions_share_is_computed_once_and_a_branch_that_is_not_taken_is_not():
    def f(x):
        shared = arithmetic.library("np.exp2")(x)
        return arithmetic.branch(x > 0.0, lambda: shared * kernels.any_sin(shared), lambda: shared + arithmetic.library("np.log2")(shared))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scalars, "turn", f)
        from dualad.codegen.to_llvm import translated

        kernel.cache_clear()
        loop = loop_of("turn", 4, "float64", "float64")
        _, code = translated(module_of(*loop), "part0", FUSES)
        assert code.count("call double @exp2(") == 2  # one on each side of the branch
        x, y = np.array([0.5, -0.5, 1e3, 40.0]), np.empty(4)
        compiled(*loop)(y, x)
        kernel.cache_clear()
    np.testing.assert_allclose(y, [f(n) for n in x], rtol=1e-15)


# --- complex numbers --------------------------------------------------------------------------------------------------------------------


COMPLEX_FUNCTIONS = [
    *(fn for fn, row in ROWS.items() if row.scalar is not None and "c" in row.scalar.kinds and isinstance(fn, np.ufunc)),
    *(fn for fn, row in ROWS.items() if row.of_complex is not None),
    *(np.real, np.imag, np.conjugate, np.exp, np.cumsum),
]


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("fn", COMPLEX_FUNCTIONS, ids=lambda fn: fn.__name__)
def test_complex_numbers_are_numpys(fn, dtype):
    rng = np.random.default_rng(5)
    scattered = [(rng.normal(size=499) + 1j * rng.normal(size=499)) * 10.0 ** rng.integers(-4, 2, 499) for _ in range(2)]
    both = [complex(x, y) for x in SPECIAL for y in SPECIAL]
    fused = vars(np._core._multiarray_umath)["__cpu_features__"].get("FMA3") and dtype is np.complex128 and fn is not np.exp
    special = np.repeat(both, len(both)), np.tile(both, len(both))
    for arguments in (scattered, *([special] if dtype is np.complex128 else [])):  # the other is computed in double precision
        with np.errstate(all="ignore"):
            given = [x.astype(dtype) for x in arguments][: 2 if fn is strong_multiply else getattr(fn, "nin", 1)]
            expected = fn(*given)
        (found,) = Native(traced(fn, *given)).call(*given)
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
def test_spectral_steps_are_translated(name):
    f, args = SPECTRAL[name]
    results = Native(traced(f, *args)).call(*args)
    expected = f(*args)
    for a, b in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        single = np.asarray(b).dtype in (np.complex64, np.float32)
        np.testing.assert_allclose(a, b, rtol=2e-5 if single else 1e-12, atol=1e-6 if single else 1e-14)


def test_loops_over_tables_of_different_width():
    """As those of an array and of its rows, in one function: their rows are of one name."""
    x, y, j, one, two = variables(x=((6,), "float64"), y=((6,), "float64"), j="int64", ONE=((2, 2), "int64"), TWO=((2, 4), "int64"))
    tables = Table("ONE", ((0, 2), (3, 5))), Table("TWO", ((0, 1, 0, 2), (1, 2, 1, 3)))

    def rows(table, body, *indices):
        (row,) = variables(b=(table.type.shape[1:], "int64"))
        for k, index in reversed([*enumerate(indices)]):
            body = For(index, Load(row, (number(2 * k),)), Load(row, (number(2 * k + 1),)), (body,))
        return ForRows(row, table, number(0), number(2), (body,))

    first = rows(one, Store(y, (I,), Load(x, (I,))), I)
    second = rows(two, Store(y, (I,), op("multiply", number(10.0), Load(x, (j,))), True), I, j)
    xs, ys = np.arange(1.0, 7.0), np.zeros(6)
    compiled((x, y), first, second, tables=tables)(xs, ys)
    np.testing.assert_array_equal(ys, [1.0 + 30.0, 2.0 + 50.0, 0.0, 4.0, 5.0, 0.0])


@pytest.mark.skipif(not FUSES, reason="this processor has no instruction that multiplies and adds")
@pytest.mark.parametrize("name", ["wave", "wave_jvp", "lorenz", "diffusion"])
def test_emitted_programs_as_python_runs_what_is_printed(name):
    """With the same kernels, which are plain functions: bit for bit."""
    native = Native(SOURCES[name])
    assert not native.fixed  # nothing is built in
    plain = python_of(native.source)
    rng = np.random.default_rng(3)
    for function, part in zip(native.functions, native.emitted.functions.values(), strict=True):
        given = [filled(parameter.type, rng) for parameter in native.emitted.module.function(part).parameters]
        expected = [np.array(x) if isinstance(x, np.ndarray) else x for x in given]
        function(*given)
        with np.errstate(all="ignore"):
            plain[part](*expected)
        close(given, expected, rtol=0.0)


def test_a_refusal_of_the_entry_is_told():
    x = np.linspace(0.0, 1.0, 20)
    native = Native(traced(lambda x: np.cumsum(x) * 2.0, x))
    native.raw.__globals__["empty"] = lambda shape, dtype: np.empty((*shape, 1), dtype)  # arrays that compiled code refuses
    with pytest.warns(UserWarning, match=r"jit: a compiled program ended with \w+Error: .* NumPy computed the call instead"):
        (found,) = native.call(x)
    close(found, np.cumsum(x) * 2.0, rtol=0.0)
    assert [count for count, _ in native.reruns.values()] == [1]


@pytest.mark.parametrize("name", ["wave", "wave_jvp", "in_slices_vjp", "lorenz", "rows_and_columns"])
def test_pieces_and_shared_kernels_give_the_same_bits(name, monkeypatch):
    outs = []
    for longest, size in (10**9, 10**9), (1, 10**9), (0, 0):
        monkeypatch.setattr(to_llvm, "LONG_FUNCTION", longest)
        monkeypatch.setattr(machine, "is_long", lambda text, size=size: len(text) > size)
        native = Native(SOURCES[name])
        rng = np.random.default_rng(3)
        kinds = [ArrayType(x.dtype.name, x.shape) if x.shape else x.dtype.name for x in native.plan.program.inputs]
        outs.append(native.call(*[filled(kind, rng) for kind in kinds]))
    for found in outs[1:]:
        close(found, outs[0], rtol=0.0)


def test_llvm_says_nothing_of_sums_that_cannot_be_vectors(capfd):
    """Beside a maximum, of a function of the C library, of what is read at computed places."""
    x = np.random.default_rng(5).standard_normal((97, 53))
    places = np.argsort(x[0])
    for f in (lambda x, k: np.sum(np.hypot(x, 1.0)), lambda x, k: np.sum(x[0][k] * x[1])):
        np.testing.assert_allclose(jit(f)(x, places), f(x, places), rtol=1e-12)
    total, largest = jit(lambda x: (np.sum(2.5 * x), np.max(x)))(x)
    assert largest == np.max(x) and np.isclose(total, np.sum(2.5 * x), rtol=1e-13)
    assert capfd.readouterr() == ("", "")
