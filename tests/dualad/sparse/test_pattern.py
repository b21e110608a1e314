"""sparsity: whole functions, random programs, stencils, arguments, Hessians, and what is refused."""

import warnings

import numpy as np
import pytest
from programs import Program

import dualad
from checkpoint import chain, checkpoint, grad
from dualad import hessian, jacobian, jit, sparsity
from dualad.rules import elementwise, explicit

sparse = pytest.importorskip("scipy.sparse")


def tridiagonal(n):
    return (np.abs(np.subtract.outer(np.arange(n), np.arange(n))) < 2).astype(bool)


def bratu(u):
    p = np.pad(u, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4.0 * u + np.exp(u)


def neighbours(n, m):
    """The five-point stencil by its definition."""
    cells = [(i, j) for i in range(n) for j in range(m)]
    return np.array([[abs(a - i) + abs(b - j) < 2 for i, j in cells] for a, b in cells])


# --- functions ----------------------------------------------------------------------------------------------------------------


def test_stencils():
    u = np.ones((6, 5))
    assert np.array_equal(sparsity(bratu, u).toarray(), neighbours(6, 5))
    f = lambda x: np.concatenate([x[:1], x[2:] - 2.0 * x[1:-1] + x[:-2] + x[1:-1] ** 3, x[-1:]])
    expected = tridiagonal(9)
    expected[0, 1] = expected[-1, -2] = False
    assert np.array_equal(sparsity(f, np.ones(9)).toarray(), expected)


def test_a_large_stencil_takes_little_memory():
    import tracemalloc

    n = 100_000
    x = np.ones(n)
    tracemalloc.start()
    pattern = sparsity(lambda x: np.diff(x, prepend=0.0, append=0.0)[1:] * x, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pattern.nnz == 2 * n - 1 and peak < 100e6
    assert isinstance(pattern, sparse.csr_array) and pattern.dtype == bool and pattern.has_canonical_format


def test_products_with_constants_are_exact():
    rng = np.random.default_rng(0)
    small = np.where(rng.random((7, 5)) < 0.3, 1.0, 0.0)
    large = np.where(rng.random((300, 260)) < 0.02, 1.0, 0.0)
    full = np.ones((300, 260))
    for matrix in (small, large, full):
        x = np.ones(matrix.shape[1])
        for f in (lambda x: matrix @ np.sin(x), lambda x: np.dot(x, matrix.T), lambda x: np.matmul(sparse.csr_array(matrix), x)):
            assert np.array_equal(sparsity(f, x).toarray(), matrix != 0)
        columns = np.ones((matrix.shape[1], 3))
        assert np.array_equal(sparsity(lambda x: matrix @ x, columns).toarray(), np.kron(matrix, np.eye(3)) != 0)
        assert np.array_equal(sparsity(lambda x: x @ matrix.T, columns.T).toarray(), np.kron(np.eye(3), matrix) != 0)
    mask = small[0] != 0
    assert np.array_equal(sparsity(lambda x: x * small[0], np.ones(5)).toarray(), np.diag(mask))
    assert np.array_equal(
        sparsity(lambda x: np.where(mask, x, 1.0 + x[::-1]), np.ones(5)).toarray(), np.where(mask[:, None], np.eye(5), np.eye(5)[::-1]) != 0
    )


def test_no_entries_are_booleans_too():
    nothing = sparse.csr_array((5, 3))
    for f in (lambda x: np.matmul(nothing, x), lambda x: np.matmul(nothing, np.outer(x, x)), lambda x: np.zeros((2, 3)) @ x):
        pattern = sparsity(f, np.ones(3))
        assert pattern.nnz == 0 and pattern.dtype == bool


@pytest.mark.parametrize("made", [lambda x: np.fft.fft(x), lambda x: np.sign(x + 2j), lambda x: np.linalg.solve(np.eye(3) + 1j, x)])
def test_the_modulus_of_complex_results_of_calls(made):
    f = lambda x: np.abs(made(x)) * np.angle(x + 1j)
    for local in (False, True):
        pattern = sparsity(f, np.ones(3), local=local).toarray()
        assert not (np.abs(jacobian(f)(np.array([0.3, -0.4, 0.7]))) > 1e-12)[~pattern].any()


def test_kernels_bands_and_triangles_are_exact():
    x = np.linspace(0.1, 1.0, 8)
    for f in (
        lambda x: np.convolve(x, [1.0, 0.0, -1.0]),
        lambda x: np.convolve(x, x[:2]),
        lambda x: np.tril(np.outer(x, x)),
        lambda x: np.cumsum(x),
        lambda x: np.add.at(y := np.zeros_like(x), [0, 3, 3], x[:3]) or y,
        lambda x: np.einsum("i,i->i", x, x),
        lambda x: np.einsum("ij,j->i", np.outer(x, x), x),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3) @ np.array([1.0, 2.0, 0.5]),
        lambda x: np.reshape(np.reshape(x, (2, 4)), (4, 2), order="F"),
        lambda x: x[np.array([3, 1, 1])] * x[0],
        lambda x: np.sort(x.reshape(4, 2), axis=1),
        lambda x: np.linalg.solve(np.eye(2) + x.reshape(2, 2, 2), x.reshape(2, 2, 2)),
        lambda x: np.fft.rfft(x.reshape(2, 4), axis=1).imag[:, 1:-1],
    ):
        dense = np.reshape(jacobian(f)(x), (-1, 8)) != 0
        pattern = sparsity(f, x).toarray()
        assert not (dense & ~pattern).any()
        assert pattern.sum() <= dense.sum() + 16, "sharp but for what sorts, transforms and solves"


def test_a_derivative_that_is_zero_everywhere_is_left_out():
    f = lambda x: np.stack([np.floor(x[0]), np.sign(x[1]) * x[2], 0.0 * x[3], x[4].astype(int) * x[5]])
    expected = np.zeros((4, 6), bool)
    expected[1, 2] = expected[3, 5] = True
    assert np.array_equal(sparsity(f, np.full(6, 1.5)).toarray(), expected)
    assert sparsity(lambda x: np.argsort(x), np.ones(3)).nnz == 0
    assert sparsity(lambda x: np.sort(x.reshape(4, 2), axis=1), np.ones(8)).nnz == 16


def test_what_is_read_at_computed_places_depends_on_all_of_them():
    f = lambda x, i: x[i] * 2.0
    x, i = np.ones(5), np.array([0, 3])
    assert sparsity(f, x, i).nnz == 2, "integers are held fixed"
    g = lambda x: x[np.argmax(x)]
    assert sparsity(g, x).nnz == 5 and sparsity(g, x, local=True).nnz == 1
    h = lambda x: np.interp(x, np.arange(5.0), x)
    assert sparsity(h, x).nnz == 25
    rows = np.ones((4, 3))
    for g in (lambda x, i: x[i], lambda x, i: np.take(x, i, axis=0), lambda x, i: x[:, None][i, 0], lambda x, i: x.T[..., i]):
        assert sparsity(lambda x, g=g: g(x, np.argmax(x[:, 0])), rows).nnz == 12, "along one axis only"
    assert sparsity(lambda x: np.roll(x, np.argmax(x[:, 0]), axis=0), rows).nnz == 48


def test_a_matrix_argument_may_have_any_zeros():
    f = lambda x, m: m @ x
    assert sparsity(f, np.ones(3), np.eye(3)).nnz == 9
    assert sparsity(f, np.ones(3), np.eye(3, dtype=int)).nnz == 3


def test_trees_and_several_arguments():
    f = lambda p, q, scale: {"a": p["x"] * q, "b": (p["y"], scale)}
    p, q = {"x": np.ones(2), "y": 3.0}, np.ones(2)
    expected = np.zeros((4, 5), bool)
    expected[[0, 1, 2], [0, 1, 2]] = True
    expected[[0, 1], [3, 4]] = True
    assert np.array_equal(sparsity(f, p, q, argnums=(0, 1), scale=2.0).toarray(), expected)
    assert sparsity(f, p, q, scale=2.0).shape == (4, 3) and sparsity(f, p, q, argnums=1, scale=2.0).nnz == 2
    assert sparsity(lambda x: 2.0 * x, 1.0).toarray().tolist() == [[True]]
    assert sparsity(lambda x: 1.0, np.ones(3)).shape == (1, 3)
    assert sparsity(lambda x: x[:0], np.ones(3)).shape == (0, 3)


def test_compiled_functions_chains_and_own_rules():
    f = jit(bratu)
    u = np.ones((4, 3))
    for local in (False, True):
        assert np.array_equal(sparsity(f, u, local=local).toarray(), neighbours(4, 3))
        stepped = lambda x: chain(lambda k, s: s + 0.1 * (np.roll(s, 1) - s), x, steps=3)
        assert sparsity(stepped, np.ones(8), local=local).nnz == 8 * 4

    @dualad.primitive
    def cube(x):
        return x**3

    @dualad.primitive
    def opaque(x):
        return x[::-1] * 2.0

    elementwise(cube, lambda ans, x: 3 * x**2)
    explicit(opaque, lambda t, ans, x: t[::-1] * 2.0, lambda g, ans, x: g[::-1] * 2.0)
    assert sparsity(cube, np.ones(4)).nnz == 4 and sparsity(opaque, np.ones(4)).nnz == 16


def test_derivatives_inside():
    f = lambda x: grad(lambda y: np.sum(y[1:] * y[:-1] ** 2))(x)
    assert np.array_equal(sparsity(f, np.ones(6)).toarray(), tridiagonal(6)[:, :] & ~np.diag([0, 0, 0, 0, 0, 1]).astype(bool))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(0, 300, 50))
def test_random_programs(block):
    """The pattern of all that a program makes covers what is different from zero; global ones where the program can be traced."""
    traced = 0
    for seed in range(block, block + 50):
        program = Program(seed)
        if program.raises or program.layout == "zero strides" or program.values.size > 150:
            continue
        x = program.argument()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            blocks = jacobian(program.run)(x)
            nonzero = np.concatenate([np.reshape(block, (-1, x.size)) for block in blocks]) != 0
            patterns = [sparsity(program.run, program.argument(), local=True)]
            try:
                patterns.append(sparsity(program.run, program.argument()))
                traced += 1
            except TypeError as error:
                assert "local=True" in str(error)
        for pattern in patterns:
            assert pattern.shape == nonzero.shape and not (nonzero & ~pattern.toarray()).any(), program
    assert traced > 5


# --- local ----------------------------------------------------------------------------------------------------------------------


def branching(x):
    if x[0] > 0.0:
        return np.stack([x[0] * x[1], x[2]])
    return np.stack([x[2], x[0] + x[2]])


def test_local_patterns_hold_along_the_way_taken():
    assert sparsity(branching, np.array([1.0, 0.0, 0.0]), local=True).toarray().tolist() == [[True, True, False], [False, False, True]]
    assert sparsity(branching, np.array([-1.0, 0.0, 0.0]), local=True).toarray().tolist() == [[False, False, True], [True, False, True]]
    with pytest.raises(TypeError, match=r"sparsity: .*test_pattern.py, line \d+: a branch.*local=True"):
        sparsity(branching, np.ones(3))
    kept = lambda x: x[x > 0.5] * 2.0
    assert sparsity(kept, np.array([0.0, 1.0, 2.0]), local=True).toarray().tolist() == [[False, True, False], [False, False, True]]


def test_local_values_are_numpys_and_arguments_are_never_written():
    seen = []

    def f(x):
        x[0] = 5.0
        y = x[1:]
        y += 1.0
        seen.append(float(dualad.primal(x).sum()))
        return np.array([x[1], x[0], y[1] * x[2]])

    x = np.arange(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pattern = sparsity(f, x, local=True)
    assert pattern.toarray().tolist() == [[False, True, False], [False] * 3, [False, False, True]]
    assert seen == [10.0] and x.tolist() == [0.0, 1.0, 2.0]


# --- Hessians -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("local", [False, True])
def test_hessians_have_nonlinear_interactions_only(local):
    x = np.linspace(0.3, 1.0, 6)
    for f in (
        lambda x: np.sum(x),
        lambda x: x[0] * x[1] + np.sum(3.0 * x) + x[2] ** 2,
        lambda x: np.sum(np.sin(x[1:] * x[:-1])),
        lambda x: np.sum((x[1:] - x[:-1]) ** 2) + np.sum(x) * x[0],
        lambda x: np.log(np.sum(np.exp(x))),
        lambda x: np.sum(x / x[0]),
    ):
        pattern = sparsity(f, x, order=2, local=local).toarray()
        dense = hessian(f)(x) != 0
        assert not (dense & ~pattern).any() and np.array_equal(pattern, pattern.T)
        assert (pattern & ~dense).sum() <= 1
    assert sparsity(lambda x: np.sum(x), x, order=2, local=local).nnz == 0


# --- bad input ------------------------------------------------------------------------------------------------------------------


def test_wrong_calls():
    x, rng = np.ones(3), np.random.default_rng(0)
    with pytest.raises(TypeError, match=r"sparsity: .*two traces"):
        sparsity(lambda x: x * rng.random(), x)
    with pytest.raises(ValueError, match="sparsity: order is 3"):
        sparsity(np.sin, x, order=3)
    with pytest.raises(TypeError, match="one real number"):
        sparsity(np.sin, x, order=2)
    with pytest.raises(TypeError, match="not a function"):
        sparsity(3.0, x)
    with pytest.raises(TypeError, match="which is no number"):
        sparsity(lambda x: "text", x)
    with pytest.raises(TypeError, match="which is no number"):
        sparsity(lambda x: "text", x, local=True)
    with pytest.raises(ValueError, match="argnums names argument 2"):
        sparsity(np.sin, x, argnums=2)
    with pytest.raises(TypeError, match="is being differentiated"):
        jacobian(lambda x: x * sparsity(np.sin, x).nnz)(x)


def test_a_pattern_that_is_too_dense_names_the_line(monkeypatch):
    monkeypatch.setattr("dualad.sparse.sets.MEMORY_BYTES", 800_000)
    with pytest.raises(ValueError, match=r"line \d+ of .*test_pattern.py.* the derivative is dense"):
        sparsity(lambda x: np.cumsum(x), np.ones(1000))
    with pytest.raises(ValueError, match=r"sparsity: output 0, float64\[1000\]: .*1.0e\+06 entries: the derivative is dense"):
        sparsity(lambda x: x / np.sum(x), np.ones(1000))
    f = lambda x: (x / np.sum(x))[:3] + np.sum(x * np.max(x))
    assert sparsity(f, np.ones(3_000)).nnz == 9_000, "full sets are held once"


SOLVED = dualad.implicit(lambda x, p: x**3 + p * x - 2.0, lambda p: np.cbrt(2.0 - p))  # no solution, but a derivative

CALLS = {
    "a view of no axes": lambda x: (y := x * 1.0, y.ravel()[..., 2].__setitem__(..., x[None, 0] * 0.7))[0],
    "implicit": SOLVED,
    "stop_gradient": lambda x: x * dualad.stop_gradient(x[::-1]),
    "primal": lambda x: x * dualad.primal(x)[::-1],
    "outputs of a chain": lambda x: chain(lambda k, s: (s * 0.5, np.sum(s)), x, steps=3, outputs=True)[1],
    "chain until": lambda x: chain(lambda k, s: s * 0.5, x, until=lambda k, s: np.max(s) < 0.3, max_steps=50),
    "jacobian inside": lambda x: jacobian(lambda y: y * y[::-1])(x),
    "checkpoint": lambda x: checkpoint(lambda y: y * y[::-1])(x),
    "numbers in a loop": lambda x: sum(x[i] * x[i - 1] for i in range(3)),
}


@pytest.mark.parametrize("f", CALLS.values(), ids=CALLS)
def test_calls_of_other_verbs(f):
    x = np.array([0.3, 0.7, 1.1])
    nonzero = np.reshape(jacobian(f)(x), (-1, 3)) != 0
    patterns = [sparsity(f, x, local=True)]
    if f not in (CALLS["implicit"], CALLS["chain until"]):  # which ask for values
        patterns.append(sparsity(f, x))
    for pattern in patterns:
        assert not (nonzero & ~pattern.toarray()).any()
