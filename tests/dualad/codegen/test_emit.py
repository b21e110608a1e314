"""The emitter: golden sources, vectorised loops, and compiled answers where they differ from Python's."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from emitted_examples import SOURCES
from interpreted import traced
from loop_examples import EXAMPLES

pytest.importorskip("llvmlite")

from checkpoint import grad, vjp
from dualad import jit, jvp
from dualad.codegen import fragments
from dualad.codegen.emit import HEADER, emit
from dualad.codegen.fragments import STEPS
from dualad.codegen.machine import FUSES
from dualad.codegen.native import Native
from dualad.graph.nested import Scan
from dualad.graph.passes import optimised
from dualad.graph.program import Program
from dualad.graph.reroll import rolled
from dualad.graph.trace import Trace
from dualad.loops.fuse import plan
from dualad.rules.kinds import ROWS

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", SOURCES)
def test_emitted_source_is_the_golden_one(name):
    """Read a difference; if it is meant, write the file anew: ``emit(plan(program)).text`` without its header."""
    file = GOLDEN / f"{name}.py.txt"
    text = emit(plan(SOURCES[name])).text.removeprefix(HEADER)
    assert text == file.read_text()


# --- what is made of it -----------------------------------------------------------------------------------------------------------


def agrees(f, *args, rtol=1e-13, native=None):
    """Check a compiled function against the function itself; return what was compiled."""
    native = native or Native(traced(f, *args))
    with np.errstate(all="ignore"):
        expected = f(*args)
    expected = expected if isinstance(expected, tuple | list) else [expected]
    for a, b in zip(native.call(*args), expected, strict=True):
        assert type(a) is type(b) and np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-300)
    return native


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_loops_that_are_rolled_up(name):
    f, args = EXAMPLES[name]

    def loss(*args):
        outs = f(*args)
        return sum(np.sum(out * np.cos(out)) for out in (outs if isinstance(outs, tuple) else (outs,)))

    for g in (f, grad(loss)):
        with Trace() as trace:
            outs = g(*[trace.input(arg) for arg in args])
            program = trace.finish(outs if isinstance(outs, tuple | list) else [outs])
        program = optimised(rolled(program, False), False)
        loops = sum(type(operation.fn) is Scan for operation in program.operations)
        native = agrees(g, *args, rtol=1e-9, native=Native(program))
        assert 1 <= loops <= 2 and "called" not in native.notes and native.source.count("for k in range(") == loops


def test_axes_of_one_element():
    """What is stored in a nest and read in it again is the number in hand, not yet the array's element."""
    mass = np.linspace(0.5, 1.0, 7)[None, :, None]

    def pull(q, g):
        d = q[None] - q[:, None]
        r = np.sum(d**2, -1) + 0.1
        return g * np.sum(mass * d / r[..., None] ** 1.5, axis=1)

    q, v = np.random.default_rng(1).normal(size=(2, 7, 3))
    agrees(lambda q, v, g: jvp(pull, (q, g), (v, 1.0)), q, v, 2.0)


REALS = np.array([0.5, -0.5, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e-310, 2.0, 1.0, -1.0, 3.7, -2.5])


#: for dtypes other than float64 and complex128, the functions that have expressions of their own for them
PLAIN = {np.add, np.subtract, np.multiply, np.divide, np.negative, np.square, np.absolute, np.maximum, np.minimum, np.less, np.equal,
         np.sin,         np.exp, np.logical_and, np.logical_not, np.bitwise_or, np.invert, np.sqrt}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.bool_, np.complex128])
def test_every_map_gives_what_numpy_gives(dtype):
    """All elementwise functions on special values in one program."""
    kind = np.dtype(dtype).kind
    with np.errstate(all="ignore"):
        base = (REALS if kind in "fc" else np.arange(-7, 7)).astype(dtype) + (1j if kind == "c" else dtype(0))
    p, wanted = Program(), []
    arrays = [np.tile(np.roll(base, shift), 20) for shift in (0, 3, 5)]
    inputs = [p.input(x) for x in arrays]
    for fn in [fn for fn, row in ROWS.items() if row.scalar is not None]:
        if (
            not isinstance(fn, np.ufunc)
            or fn in (np.power, np.float_power, np._core.umath.clip)
            or not (fn in PLAIN or kind == "c" or dtype is np.float64)
        ):
            continue
        count = fn.nin
        try:
            with np.errstate(all="ignore"):
                ans = fn(*arrays[:count])
        except TypeError:
            continue
        if ans.dtype.char in "geG":
            continue
        p.outputs.append(p.append(fn, tuple(inputs[:count]), {}, ans))
        wanted.append((fn, ans))
    native = Native(p)
    single = any(ans.dtype in (np.float32, np.complex64) for _, ans in wanted)
    for got, (fn, ans) in zip(native.call(*arrays), wanted, strict=True):
        assert got.dtype == ans.dtype, fn
        np.testing.assert_allclose(got, ans, rtol=1e-6 if single else 1e-14, atol=0.0, err_msg=str(fn))
        if fn not in (np.maximum, np.minimum, np.fmax, np.fmin) and ans.dtype.kind == "f":
            zero = (ans == 0) & (got == 0)
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(ans[zero]), err_msg=str(fn))


def test_sums_keep_special_values():
    for x in ([-0.0, -0.0], [np.inf, 1.0], [np.inf, -np.inf], [np.nan, 1.0], [1e308, 1e308]):
        x = np.resize(np.array(x), 100)
        agrees(lambda x: (np.sum(x), np.max(x), np.min(x), np.prod(x[:3]), np.any(x), np.all(x)), x)
        (total,) = Native(traced(np.sum, x)).call(x)
        with np.errstate(all="ignore"):
            assert np.signbit(total) == np.signbit(np.sum(x))


def test_what_only_its_own_loops_read_is_not_stored():
    def dear(x):
        for _ in range(10):
            x = x + x * x
        return x

    x = np.linspace(0.0, 1e-4, 200)
    native = agrees(lambda x: (dear(x) * 2.0, dear(x) + 1.0), x)
    assert native.emitted.nests == 1 and "w0" not in native.source
    assert "w0" in agrees(lambda x: (dear(x) * 2.0, np.roll(dear(x), 1) + 1.0), x).source


def test_large_arrays_that_are_not_read_at_the_same_time_are_one():
    """Also those of other shapes; an array that an output is seen in stays."""

    def diffused(x, rows=8):
        first = y = np.tanh(x + np.roll(x, 1))
        for _ in range(6):
            y = np.reshape(y, (rows, -1))
            y = np.tanh(y + np.roll(y, 1, 0) + np.roll(y, 1, 1))
            y = np.ravel(np.tanh(y + np.roll(y, 1, 0)))
        return y + np.roll(y, 1), np.reshape(first, (rows, -1))

    native = agrees(diffused, np.linspace(-1.0, 1.0, 4096))
    stored = {name for name in native.emitted.names.values() if name[0] == "w"}
    assert native.emitted.nests >= 13 and len(stored) == 3, stored


# --- rows ---------------------------------------------------------------------------------------------------------------------------


def around(u, v):
    """Wrapped and cut stencils, of which the ends of rows are other expressions, with reductions over everything and over rows."""
    spread = np.roll(u, 1, 0) + np.roll(u, -1, 1) * v
    inner = np.zeros_like(u)
    inner[2:-1, 3:-2] = v[1:-2, 2:-3] * u[3:, 1:-4]
    inner[40:80, 10:20] = spread[40:80, 10:20]
    return spread, inner, np.sum(spread * inner), np.sum(inner, axis=1), np.sum(inner, axis=0)


@pytest.mark.slow
def test_the_ends_of_rows_are_computed_in_the_loop_over_rows():
    """In a second pass over the columns they are out of the cache."""
    u, v = np.random.default_rng(2).standard_normal((2, 150, 140))
    native = agrees(lambda u: np.roll(u, 1, 1) + np.roll(u, -1, 0), u)
    assert native.source.count("for i0 in") == 1
    agrees(around, u, v, rtol=1e-11)
    agrees(lambda u, v, g, h: vjp(lambda u, v: around(u, v)[:2], u, v)[1]((g, h)), u, v, v, u, rtol=1e-11)


def test_results_in_the_order_of_f_are_computed_in_it():
    """Not in the order of C and copied: Jacobians are what such results mostly are."""
    x = np.random.default_rng(2).standard_normal((30, 40))

    def f(x):
        y = np.sin(x).T
        return y, np.sum(x, 0)[:, None] * y, x.copy("F"), y

    native = Native(traced(f, x))
    for out, expected in zip(native.call(x), f(x), strict=True):
        assert out.flags.f_contiguous == expected.flags.f_contiguous and out.flags.c_contiguous == expected.flags.c_contiguous
        np.testing.assert_allclose(out, expected, rtol=1e-14)
    alone = Native(traced(lambda x: np.sin(x).T, x))
    assert "for j in range(1200)" in alone.source and "fortran" not in alone.raw.__code__.co_names


ELEMENTS = {
    "alone": [(5, 7)],
    "then a slice that covers it": [(5, 7), (slice(2, -2), slice(1, -1))],
    "then a slice beside it": [(5, 7), (2, slice(2, -2)), (slice(None), -1)],
    "in a slice": [(slice(2, -2), slice(1, -1)), (5, 7)],
    "twice": [(5, 7), (6, 7), (5, 7), (-1, 0)],
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_single_elements_that_are_assigned(name):
    """As point sources are: they stand in their order with slices that are assigned."""
    x, y, g = np.random.default_rng(3).standard_normal((3, 20, 30))
    indices = ELEMENTS[name]

    def f(x, y):
        z = np.sin(x)
        for k, index in enumerate(indices):
            z[index] = z[index] * (k + 2.0) + y[index] + x[1, 2]
        return z, z[1:, :] - y[:-1, :], np.sum(z * y)

    agrees(f, x, y)
    agrees(lambda x, y, g: vjp(lambda x, y: f(x, y)[0], x, y)[1](g), x, y, g, rtol=1e-12)


def test_dear_values_of_fewer_axes_have_a_loop_of_their_own():
    x, a = np.linspace(-2.0, 2.0, 320).reshape(40, 8), np.linspace(0.0, 1.0, 128).reshape(8, 16)
    assert agrees(lambda x, a: np.tanh(x) @ a, x, a, rtol=1e-13).emitted.nests == 2
    assert agrees(lambda x, a: (2.0 * x) @ a, x, a, rtol=1e-13).emitted.nests == 1
    assert agrees(lambda x, a: np.exp(x[:, 0])[:, None] * a[0], x, a, rtol=1e-13).emitted.nests == 2
    assert agrees(lambda x: x.T * np.exp(x[:, 0]), x, rtol=1e-13).emitted.nests == 2
    assert agrees(lambda x: x.T * (2.0 * x[:, 0]), x, rtol=1e-13).emitted.nests == 1


def test_loops_around_take_several_steps_at_once_where_little_is_computed():
    x = np.linspace(-2.0, 2.0, 2048).reshape(32, 64)
    cheap = agrees(lambda x: np.sum(x * 2.0, axis=0), x).source
    dear = agrees(lambda x: np.sum(np.tanh(x), axis=0), x).source.partition("def part0")[2]
    assert "4 * i0 + 3" in cheap
    assert dear.count("tanh(") == 1


def test_products_go_along_memory():
    """Products with transposes, as adjoints of layers have them, too: an innermost loop across rows is three times as dear."""
    a, b, v = np.random.default_rng(6).standard_normal((3, 40, 40))
    products = [lambda a, b: a @ b, lambda a, b: a @ b.T, lambda a, b: np.sin(a) @ b.T, lambda a, b: a.T @ b]
    for f in (*products, lambda a, b: a.T @ b[0], lambda a, b: a @ b[0]):
        source = agrees(f, a, b, rtol=1e-12).source
        assert "[j, " not in source and "[j]" in source
    few = agrees(lambda a, b: a[:, :3] @ b[:, :3].T, a, v, rtol=1e-12)
    assert "for j in range(3)" not in few.source


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 16, 23])
def test_products_take_several_steps_at_once(k):
    """Each term is added in its turn: of sums with a rounding of its own, of products without, if the processor can."""
    a, b = np.random.default_rng(k).standard_normal((2, 90, k, 33))
    x, y = a[:, :, 0], b[0]
    native = agrees(lambda x, y: (x @ y, x.T @ x, y @ y.T, np.max(y, axis=0)), x.copy(), y, rtol=1e-10)
    assert (
        f"for i1 in range({k // 4}):" in native.source
        and "[4 * i1 + 3, 0:33]" in native.source
        and "x0[2 * i0 + 1, 4 * i1]" in native.source
    )
    assert "multiply_add(" in native.source
    terms = x[:, :, None] * y
    for threads in (1, 2):
        values = jit(lambda x, y: (x @ y, (x[:, :, None] * y).sum(1), (x[:, :, None] * y).max(1)), threads=threads)(x, y)
        for value, add in zip(values[1:], (np.add, np.maximum), strict=True):
            expected = terms[:, 0].copy()
            for step in range(1, k):
                expected = add(expected, terms[:, step])
            np.testing.assert_array_equal(value, expected)
        product, total = values[:2]
        for i, j in ((0, 0), (1, 5), (88, 32), (89, 31)):  # in loops over all indices, and over some
            fused = 0.0
            for step in range(k):
                fused = float(Fraction(fused) + Fraction(x[i, step]) * Fraction(y[step, j]))
            assert product[i, j] == (fused if FUSES else total[i, j])
        np.testing.assert_array_equal(product, native.call(x.copy(), y)[0])


def test_small_constants_are_part_of_the_machine_code():
    """As arguments each costs 10 ns a call, and a Jacobian has one for each column of a seed. Equal sources may differ in them."""
    x, whole = np.linspace(0.1, 1.0, 50), np.arange(1000.0)
    for weights in (np.arange(50.0), np.arange(50.0)[::-1] ** 2):
        native = agrees(lambda x, w=weights: np.sin(x) * w + np.sum(x * w), x)
        assert len(native.fixed) == 1
        agrees(lambda x, w=weights: (x + 1j) * w, x)
        agrees(lambda x, w=weights: np.sum(np.linalg.inv(x[:4].reshape(2, 2) + np.eye(2) * 3.0) * w[:4].reshape(2, 2)), x)
    assert not agrees(lambda x: np.sum(x) * whole, x).fixed


def test_numbers_beside_loops_over_arrays():
    """A number that is computed in a nest over arrays is stored in none of its axes."""
    table, rows = np.linspace(-1, 1, 8), np.random.default_rng(0).uniform(-0.1, 0.1, (130, 8))

    def f(u, p):
        v = np.arccos(0.2 * (np.add.reduce(u[0], axis=0) + table + p)[:-1])
        last = np.arcsin(np.add.reduce(u[0], axis=0))
        return np.tanh(last + np.mean(p + v)) + np.sin(np.mean(v) + u[0][::2].sum())

    def g(x):
        y = np.linalg.solve(np.eye(3) * 2.0 + x[0], x[:3])
        return np.sum(0.3 * x + 0.1 * np.tanh(x + y[0]))

    for h, args in ((f, (rows, 0.3)), (g, (np.linspace(-0.1, 0.1, 100),))):
        expected = grad(h)(*args)
        np.testing.assert_allclose(jit(grad(h))(*args), expected, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(jit(h)(*args), h(*args), rtol=1e-13)


def test_what_would_be_compiled_for_long_is_refused_by_its_line(monkeypatch):
    monkeypatch.setattr("dualad.codegen.native.PROGRAM_OPERATIONS", 10)
    with pytest.raises(OverflowError, match=r"has \d+ lines, .*emitted_examples.py.*Write it as chain"):
        Native(SOURCES["wave"])


def test_numbers_that_are_gathered_are_written_out():
    native = agrees(lambda *xs: np.stack(xs), *np.linspace(-1.0, 2.0, 300).tolist())
    assert native.emitted.nests == 0 and "choose" not in native.source.partition("def part0")[2]


def test_branches_deep_in_each_other_are_functions_that_are_called():
    """What is copied to its caller takes LLVM more than in proportion to its depth; and it cuts names of more than 1024 letters."""
    space: dict = {}
    tests = [f"    x = x * {1 + k / 100}\n    if x > {k + 9}:\n        return x + {k}" for k in range(24)]
    exec("\n".join(["def f(x):", *tests, "    return x"]), space)
    f = space["f"]
    fast = jit(f, backend="numpy")
    assert fast(0.5) == f(0.5)
    (entry,) = fast.entries.values()
    functions = emit(plan(entry.compiled.program), STEPS).module.parts
    assert 2 <= sum(not function.inlined for function in functions) <= 4 and len(functions) > 24
    assert max(len(function.name) for function in functions) < 200


def test_what_has_no_loop_form_deep_in_branches_is_tried_once_a_branch(monkeypatch):
    """The innermost, which calls, is not emitted at all."""
    space: dict = {"np": np}
    tests = [f"{'    ' * k}if x[{k}] > 0.0:\n{'    ' * (k + 1)}x = np.cos(x)" for k in range(1, 7)]
    exec("\n".join(["def f(x):", *tests, f"{'    ' * 7}x = np.sin(x.astype(np.longdouble)).astype(float)", "    return x"]), space)
    f = space["f"]
    fast = jit(f, backend="numpy")
    for k in range(1, 8):
        x = np.where(np.arange(8) < k, 0.5, -0.5)
        np.testing.assert_array_equal(fast(x), f(x))
    entry = list(fast.entries.values())[-1]
    tried: list = []
    monkeypatch.setattr(fragments, "emit", lambda *args, **options: tried.append(args) or emit(*args, **options))
    emit(plan(entry.compiled.program), STEPS)
    assert len(tried) == 5
