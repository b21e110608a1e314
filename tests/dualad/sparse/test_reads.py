"""Compiled sparse Jacobians by reads of the arguments: equal to the dense ones, and made of neighbouring rows without a gather."""

import numpy as np
import pytest
from optree import tree_leaves

import dualad
import dualad.sparse.compressed
from dualad import coloring, jacobian, jit, sparsity, value_and_jacobian

sparse = pytest.importorskip("scipy.sparse")
RNG = np.random.default_rng(7)
LINE, SQUARE = RNG.normal(size=40), RNG.normal(size=(7, 6))
MASK = np.arange(40) % 3 == 0


def burgers(u):
    inner = u[1:-1] * (u[2:] - u[:-2]) - 0.01 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.concatenate([u[:1], inner, u[-1:]])


def written(u):
    out = np.zeros_like(u)
    out[1:-1] = np.sin(u[1:-1]) * u[2:] - u[:-2] ** 2
    out[0], out[-1] = u[0] ** 2, u[-1]
    return out


def bratu(u):
    around = np.pad(u, 1)
    return around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2] - 4.0 * u + 0.1 * np.exp(u)


def two_fields(u):
    a, b = u[:20], u[20:]
    flow = np.roll(a, 1) - 2.0 * a + np.roll(a, -1)
    return np.concatenate([flow + a**2 * b, a * b - np.roll(b, 1)])


#: functions that read their argument by movements, with an argument
READ = {
    "Burgers": (burgers, LINE),
    "rows written": (written, LINE),
    "periodic": (lambda u: np.roll(u, 1) * u + np.roll(u, -2), LINE),
    "periodic, so short that columns meet": (lambda u: np.roll(u, 1) * u + np.roll(u, -1), LINE[:2]),
    "joined ends": (lambda u: np.diff(np.concatenate([u[-1:], u, u[:1]])) ** 2, LINE),
    "differences": (lambda u: np.diff(u) * u[1:], LINE),
    "every second": (lambda u: u[::2] * u[1::2] + u[-1], LINE),
    "reversed": (lambda u: u * u[::-1], LINE),
    "one element": (lambda u: u[3] * u, LINE),
    "chosen": (lambda u: u[np.array([3, 1, 1, 7])] ** 2, LINE),
    "masked": (lambda u: np.where(MASK, u, 2.0 * u) * np.where(MASK, 0.0, 1.0), LINE),
    "what was padded with": (lambda u: np.pad(u, 2)[:4] * u[:4] + np.pad(u, 3)[:2].sum(), LINE),
    "squares": (bratu, SQUARE),
    "turned": (lambda u: u.T[1:] * u.T[:-1], SQUARE),
    "sums of rows": (lambda u: np.sum(u**2, axis=1), SQUARE),
    "two fields": (two_fields, LINE),
    "two results": (lambda u: (u[1:] * u[:-1], {"a": bratu(u.reshape(8, 5)), "b": np.sum(u[:3])}), LINE),
    "itself": (lambda u: u, LINE),
    "linear": (lambda u: 3.0 * u[2:], LINE),
    "matrix": (lambda u: np.eye(40)[:5] @ u, LINE),
    "nested": (lambda u: np.diff(np.diff(u) ** 2), LINE),
    "complex": (lambda u: u[1:] ** 2 * u[:-1], LINE + 1j),
    "single": (lambda u: u[1:] ** 2 * u[:-1], LINE.astype(np.float32)),
    "strided": (lambda u: u[1:] ** 2 * u[:-1], np.repeat(LINE, 2)[::2]),
    "an order of Fortran": (bratu, np.asfortranarray(SQUARE)),
}


@pytest.fixture(params=["numpy", "llvm"])
def compiled(request):
    if request.param == "llvm":
        pytest.importorskip("llvmlite")
    return lambda f: jit(f, backend=request.param)


def dense(f, u, holomorphic):
    rows = tree_leaves(jacobian(f, holomorphic=holomorphic)(u))
    return np.concatenate([np.reshape(part, (-1, u.size)) for part in rows])


@pytest.mark.parametrize("name", READ)
def test_entries_are_those_of_the_dense_jacobian(compiled, name):
    f, u = READ[name]
    holomorphic = u.dtype.kind == "c"
    pattern = sparsity(f, u)
    expected, tolerance = dense(f, u, holomorphic), 1e-5 if u.dtype == np.float32 else 1e-12
    more = sparse.csr_array(pattern + sparse.eye_array(*pattern.shape, k=2, dtype=bool))
    for given in (pattern, more):
        jac = jacobian(compiled(f), sparsity=given, holomorphic=holomorphic)
        matrix = jac(u)
        assert matrix.dtype == u.dtype and matrix.nnz == given.nnz
        for _ in range(2):
            np.testing.assert_allclose(matrix.toarray(), expected, rtol=tolerance, atol=tolerance)
            matrix.data[:] = 7.0
            assert jac.fill(matrix, u) is matrix
    if pattern.shape[0] > 20:  # as parts of one result
        value, matrix = value_and_jacobian(jit(f, backend="numpy"), sparsity=pattern, holomorphic=holomorphic)(u)
        np.testing.assert_allclose(matrix.toarray(), expected, rtol=tolerance, atol=tolerance)
        for a, b in zip(tree_leaves(value), tree_leaves(f(u)), strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_neighbouring_rows_are_written_together_into_the_entries(monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(dualad.sparse.compressed, "push_colors", None)  # by colours of columns
    jac = jacobian(jit(burgers, verify=False), sparsity=(pattern := sparsity(burgers, LINE)))
    matrix, found = jac(LINE), []
    monkeypatch.setattr(np, "empty", lambda *args, **kwargs: found.append(args) or np.zeros(*args, **kwargs))
    jac.fill(matrix, LINE)
    assert not found  # nothing is allocated
    compressed = next(c.cell_contents for c in jac.fill.__closure__ if isinstance(c.cell_contents, dualad.sparse.compressed.Compressed))
    source = compressed.made[0][1].source(LINE)
    assert source.count("for j in") == 1 and all(f"[j, {k}] = " in source for k in range(3)) and pattern.nnz == matrix.nnz


def test_other_arguments_integers_and_static_ones(compiled):
    f = lambda u, k, a, n=2: u[k] * a * u[1:] ** n
    jac = jacobian(compiled(f), sparsity=coloring(sparsity(lambda u: np.sum(u) * u[1:], LINE)))
    for k in (0, 3):
        expected = jacobian(f)(LINE, k, 2.0)
        np.testing.assert_allclose(jac(LINE, k, 2.0).toarray(), expected, rtol=1e-12, atol=1e-12)
    both = jacobian(compiled(lambda a, b: a[1:] * b[:-1]), argnums=(0, 1), sparsity="auto")
    expected = np.concatenate(jacobian(lambda a, b: a[1:] * b[:-1], argnums=(0, 1))(LINE, 2.0 * LINE), axis=1)
    np.testing.assert_allclose(both(LINE, 2.0 * LINE).toarray(), expected, rtol=1e-12)
    same = both(LINE, LINE)
    np.testing.assert_allclose(same.toarray()[:, :40], np.eye(40)[1:] * LINE[:-1, None], rtol=1e-12)
    safe = jacobian(compiled(lambda u: np.sqrt(u)[1:] * u[:-1]), sparsity="auto", nan_safe=True)
    np.testing.assert_array_equal(safe(np.zeros(3)).toarray(), jacobian(lambda u: np.sqrt(u)[1:] * u[:-1], nan_safe=True)(np.zeros(3)))


def test_a_function_that_branches_takes_as_many_paths_as_it_may():
    f = jit(lambda u: u * int(u[0]) + u[::-1], backend="numpy", paths=18)
    jac = jacobian(f, sparsity=np.eye(40) + np.eye(40)[::-1])
    for k in range(18):
        np.testing.assert_array_equal(jac(LINE * 0.0 + k).toarray(), k * np.eye(40) + np.eye(40)[::-1])
