"""jacobian_columns: in order, into arrays, memmaps and functions, within a budget, under a bar; wrong calls."""

import tracemalloc

import numpy as np
import pytest

import checkpoint
from dualad import jacobian, jacobian_columns, jit

X = np.array([0.5, -1.5, 2.0])


def f(x):
    return np.stack([x[0] * x[1], np.sin(x[2]), np.sum(x * x), x[0] - x[2]])


EXPECTED = np.array([[-1.5, 0.5, 0.0], [0.0, 0.0, np.cos(2.0)], [1.0, -3.0, 4.0], [1.0, 0.0, -1.0]])


# --- one by one -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 2, None])
def test_columns(chunk):
    pairs = list(jacobian_columns(f, X, chunk=chunk))
    assert [j for j, _ in pairs] == [0, 1, 2]
    np.testing.assert_allclose(np.stack([column for _, column in pairs], axis=1), EXPECTED)


def test_columns_of_matrices_and_scalars():
    m = np.arange(6.0).reshape(2, 3)
    for j, column in jacobian_columns(lambda x: x * x, m):
        expected = np.zeros(6)
        expected[j] = 2 * m.flat[j]
        assert column.shape == (2, 3) and column.ravel().tolist() == expected.tolist()
    assert list(jacobian_columns(lambda x: x * x, 3.0)) == [(0, 6.0)]
    assert list(jacobian_columns(lambda x: 5.0, np.ones(2))) == [(0, 0.0), (1, 0.0)]


def test_columns_are_the_callers_own():
    columns = []
    for _, column in jacobian_columns(f, X):
        column += 1.0
        columns.append(column)
    np.testing.assert_allclose(np.stack(columns, axis=1), EXPECTED + 1.0)


def test_columns_are_lazy():
    calls = []
    columns = jacobian_columns(lambda x: calls.append(1) or x, np.ones(4), chunk=1)
    assert calls == []
    next(columns)
    assert len(calls) == 1


def test_columns_never_hold_the_matrix():
    n = 800
    tracemalloc.start()
    for _, column in jacobian_columns(lambda x: np.cumsum(x) * 2.0, np.ones(n)):
        assert column.shape == (n,)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * n * 8 / 2


def test_columns_refuse_trees():
    with pytest.raises(TypeError, match=r"x is a pytree.*use jacobian"):
        jacobian_columns(f, [1.0, 2.0])
    with pytest.raises(TypeError, match="f returned a pytree: use jacobian"):
        next(jacobian_columns(lambda x: (x, x), X))


# --- into something -------------------------------------------------------------------------------------------------------------

SHAPES = [((3,), (4,)), ((2, 3), (4,)), ((3,), (2, 2)), ((2, 3), (2, 2)), ((), (4,)), ((3,), ()), ((), ())]


def mixed(rows):
    """A function to an array of some shape whose entries depend on every input, each in its own way."""
    weights = np.arange(1.0, np.prod(rows, dtype=int) + 1).reshape(rows)
    return lambda x: np.sin(weights * np.sum(x * np.cos(np.arange(np.size(x))).reshape(np.shape(x))))


@pytest.mark.parametrize("chunk", [1, 2, None])
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
@pytest.mark.parametrize("verb", [jacobian_columns, checkpoint.jacobian_columns, checkpoint.jacobian_rows])
def test_arrays(verb, rows, columns, chunk):
    g, x = mixed(rows), np.linspace(0.1, 0.7, int(np.prod(columns, dtype=int))).reshape(columns)
    expected = np.asarray(jacobian(g)(x))
    for shape in {expected.shape, (expected.size // x.size, x.size)}:
        for order in "CF":
            out = np.full(shape, np.nan, order=order)
            assert verb(g, x, chunk, out=out) is out
            np.testing.assert_allclose(out, expected.reshape(shape), rtol=1e-14)
    by_rows = verb is checkpoint.jacobian_rows
    seen = np.full((expected.size // x.size, *columns) if by_rows else (*rows, x.size), np.nan)

    def put(places, block):
        seen[places if by_rows else (..., places)] = block
        block[...] = 7.0  # it is ours

    assert verb(g, x, chunk, out=put) is None
    np.testing.assert_allclose(seen.reshape(expected.shape), expected, rtol=1e-14)


def test_strided_arrays_and_memmaps(tmp_path):
    whole = np.zeros((8, 9))
    jacobian_columns(f, X, out=whole[::2, ::3])
    np.testing.assert_allclose(whole[::2, ::3], EXPECTED)
    assert np.count_nonzero(whole) == np.count_nonzero(EXPECTED)
    file = np.memmap(tmp_path / "jacobian", float, "w+", shape=(4, 3))
    assert jacobian_columns(f, X, out=file) is file
    file.flush()
    np.testing.assert_allclose(np.fromfile(tmp_path / "jacobian").reshape(4, 3), EXPECTED)
    single = np.zeros((4, 3), np.float32)
    np.testing.assert_allclose(jacobian_columns(f, X, out=single), EXPECTED, rtol=1e-6)


def test_constants_and_views_are_written():
    out = np.full((3, 3), np.nan)
    assert not jacobian_columns(lambda x: np.ones(3), X, out=out).any()
    assert np.array_equal(jacobian_columns(lambda x: np.broadcast_to(np.sum(x), 3), X, out=out), np.ones((3, 3)))
    blocks = []
    jacobian_columns(lambda x: np.broadcast_to(np.sum(x), 3), X, out=lambda at, block: blocks.append(block.fill(2.0)))
    assert len(blocks) == 1
    assert jacobian_columns(lambda x: x, np.zeros(0), out=np.zeros((0, 0))).shape == (0, 0)


def test_wrong_outs():
    with pytest.raises(ValueError, match=r"jacobian_columns: out has shape \(3, 4\), the Jacobian \(4, 3\)$"):
        jacobian_columns(f, X, out=np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"the Jacobian \(2, 2, 2, 2\), or \(4, 4\) flat"):
        jacobian_columns(lambda x: x * x, np.ones((2, 2)), out=np.zeros(16))
    with pytest.raises(TypeError, match="out has dtype int64, the Jacobian float64"):
        jacobian_columns(f, X, out=np.zeros((4, 3), np.int64))
    with pytest.raises(TypeError, match="out has dtype float64, the Jacobian complex128"):
        jacobian_columns(lambda x: np.exp(1j * x), X, out=np.zeros((3, 3)))
    with pytest.raises(TypeError, match="out is 'file': give an array, a memmap, or a function"):
        jacobian_columns(f, X, out="file")
    out = np.zeros((4, 3))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        jacobian_columns(f, X, out=out)


# --- budgets --------------------------------------------------------------------------------------------------------------------


def wide(x):
    """A function with temporaries much larger than its result."""
    return np.sum(np.sin(x[:, None] * np.linspace(0.0, 1.0, 50)), axis=1)


@pytest.mark.parametrize("memory", ["400 kB", "1 MB", 3_000_000])
def test_a_budget_is_kept_and_used(memory):
    n, calls = 100, []
    x = np.linspace(0.0, 1.0, n)

    def g(x):
        calls.append(1)
        return wide(x)

    out = np.empty((n, n))
    tracemalloc.start()
    try:
        jacobian_columns(g, x, out=out, memory=memory)
        peak = tracemalloc.get_traced_memory()[1]  # since the measured chunks
    finally:
        tracemalloc.stop()
    budget = {"400 kB": 400_000, "1 MB": 1_000_000}.get(memory, memory)
    assert peak < 1.1 * budget + 20_000
    assert len(calls) <= n if memory == "400 kB" else 2 + 1.5 * n * 50 * n * 8 * 5 / budget
    np.testing.assert_allclose(out, jacobian(wide)(x))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_budgets_of_few_columns(n):
    x = np.linspace(1.0, 2.0, n)
    assert np.array_equal(jacobian_columns(lambda x: x * x, x, out=np.empty((n, n)), memory="1 MB"), np.diag(2 * x))
    assert len(list(jacobian_columns(lambda x: x * x, x, chunk=1, memory="1 MB"))) == n
    assert not tracemalloc.is_tracing()


def test_a_budget_for_a_compiled_function():
    x = np.linspace(0.0, 1.0, 100)
    np.testing.assert_allclose(jacobian_columns(jit(wide), x, out=np.empty((100, 100)), memory="1 MB"), jacobian(wide)(x), rtol=1e-13)


def test_budgets_that_are_too_small_or_no_sizes():
    with pytest.raises(ValueError, match=r"memory='10 kB' is less than one column takes: [0-9.]+ kB, with the temporaries"):
        jacobian_columns(wide, np.ones(100), out=np.empty((100, 100)), memory="10 kB")
    with pytest.raises(ValueError, match="is less than one column takes"):
        next(jacobian_columns(wide, np.ones(100), memory=8))
    with pytest.raises(ValueError, match="cannot read 'much'"):
        jacobian_columns(wide, np.ones(100), memory="much")
    with pytest.raises(TypeError, match="must be an integer"):
        jacobian_columns(wide, np.ones(100), memory=1.5)
    assert not tracemalloc.is_tracing()


def test_streamed_columns_take_little_memory():
    """At most 10 (n + m K) doubles, of a Jacobian of n m."""
    n, chunk = 3000, 4
    x, largest = np.linspace(0.0, 1.0, n), [0.0]

    def put(columns, block):
        largest[0] = max(largest[0], np.max(np.abs(block)))

    tracemalloc.start()
    try:
        jacobian_columns(lambda x: np.cumsum(np.sin(x)), x[:200], chunk, out=put)  # imports
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        jacobian_columns(lambda x: np.cumsum(np.sin(x)), x, chunk, out=put)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak <= 10 * 8 * (n + n * chunk) and largest[0] == 1.0


# --- bars, and functions that change ------------------------------------------------------------------------------------------------


def test_a_bar(bars):
    jacobian_columns(f, X, 2, out=np.empty((4, 3)), progress=True)
    list(jacobian_columns(f, X, progress=True))
    assert [(bar.desc, bar.unit, bar.total, bar.count, bar.closed) for bar in bars] == [("jacobian_columns", "column", 3, 3, True)] * 2
    with pytest.raises(ZeroDivisionError):
        list(jacobian_columns(lambda x: 1 // 0, X, progress=True))
    assert bars[-1].count == 0 and bars[-1].closed


def test_a_function_that_is_not_deterministic():
    generator = np.random.default_rng(0)
    with pytest.raises(RuntimeError, match=r"f is not deterministic: its value has changed .*for columns 1 to 1: element \(0,\) is"):
        list(jacobian_columns(lambda x: x * generator.normal(size=3), X, chunk=1))
    sizes = iter(range(2, 9))
    with pytest.raises(RuntimeError, match=r"its shape is \(3,\), it was \(2,\)"):
        jacobian_columns(lambda x: x[0] * np.ones(next(sizes)), X, 1, out=np.empty((2, 3)))
    values = iter([np.array([0.0, 1.0]), np.array([1e-17, 2.0])])  # the first element was rounded otherwise
    with pytest.raises(RuntimeError, match=r"element \(1,\) is 2\.0, it was 1\.0"):
        list(jacobian_columns(lambda x: x[0] * 0.0 + next(values), X, chunk=1))
    noise = iter(np.linspace(0, 1e-13, 9))
    list(jacobian_columns(lambda x: x * (1 + next(noise)), X, chunk=1))  # as other processors may round
    list(jacobian_columns(lambda x: x * np.nan, X, chunk=1))


def test_inside_a_derivative_and_compiled():
    from dualad import derivative

    expected = derivative(lambda a: jacobian(lambda x: np.sin(a * x))(X))(0.5)

    def stacked(a):
        return np.stack([column for _, column in jacobian_columns(lambda x: np.sin(a * x), X, 2)], axis=1)

    np.testing.assert_allclose(derivative(stacked)(0.5), expected)
