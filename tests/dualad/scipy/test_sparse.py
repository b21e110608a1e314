"""dualad.scipy.sparse: products and solutions are SciPy's own, derivatives those of the dense matrices, by entries and by arrays."""

import copy
import pickle

import numpy as np
import pytest
from scipy_calls import check_refused

import dualad
from checkpoint import grad, hvp

pytest.importorskip("scipy")
from scipy import sparse as sp
from scipy.sparse import linalg as spl

from dualad.scipy import sparse as ds
from dualad.scipy.sparse import linalg as dl

RNG = np.random.default_rng(11)
ROWS = np.array([0, 2, 1, 0, 3, 2, 3, 1, 2])  # one place twice
COLUMNS = np.array([0, 2, 1, 3, 3, 0, 1, 1, 2])
DATA = RNG.standard_normal(9) + np.where(ROWS == COLUMNS, 4.0, 0.0)
DENSE = np.zeros((4, 4))
np.add.at(DENSE, (ROWS, COLUMNS), DATA)
X = RNG.standard_normal((4, 3))
VECTOR = X[:, 0].copy()
PLAIN = sp.csr_array(DENSE)


def dense(data):
    return np.tensordot(data, UNITS, 1)


UNITS = np.zeros((9, 4, 4))
UNITS[np.arange(9), ROWS, COLUMNS] = 1.0
KINDS = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")


def same_derivatives(f, g, *args):
    """Both modes and second order of two functions of one array."""
    for x in args:
        np.testing.assert_allclose(dualad.jacobian(f)(x), dualad.jacobian(g)(x), rtol=1e-10, atol=1e-12)
        loss, other = (lambda x, h=h: np.sum(np.sin(h(x))) for h in (f, g))
        np.testing.assert_allclose(grad(loss)(x), grad(other)(x), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(hvp(loss, x, np.cos(x)), hvp(other, x, np.cos(x)), rtol=1e-8, atol=1e-12)


def test_products_of_a_plain_matrix_with_traced_arrays():
    for name in KINDS:
        matrix, scipys = getattr(ds, name)(PLAIN), getattr(sp, name)(PLAIN)
        assert isinstance(matrix, getattr(sp, name)) and isinstance(scipys, getattr(ds, name)) and sp.issparse(matrix)
        for x in (VECTOR, X):
            value = dualad.jvp(lambda x, m=matrix: m @ x, (x,), (x,))[0]
            assert value.tobytes() == (scipys @ x).tobytes() == (matrix @ x).tobytes()
        same_derivatives(lambda x, m=matrix: m @ x + 2.0 * (m.T @ x) + m.dot(x), lambda x: DENSE @ x * 2.0 + 2.0 * DENSE.T @ x, VECTOR, X)
        same_derivatives(lambda x, m=matrix: x @ m, lambda x: x @ DENSE, VECTOR, X.T.copy())
    same_derivatives(lambda x: ds.csr_matrix(PLAIN) * x, lambda x: DENSE @ x, VECTOR)
    again = pickle.loads(pickle.dumps(copy.copy(ds.csr_array(PLAIN))))
    np.testing.assert_array_equal(dualad.jacobian(lambda x: again @ x)(VECTOR), DENSE)
    assert (2.0 * ds.csr_array(PLAIN)).tocsc().sum() == pytest.approx(2.0 * DENSE.sum())


def second_differences(sparse, x):
    return sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(4, 4)) @ x


MADE = {
    "diagonals": second_differences,
    "rows of them": lambda sparse, x: (sparse.eye(4) - 0.1 * sparse.diags([[1.0, 2.0, 3.0]], [1])).tocsr() @ x,
    "entries set": lambda sparse, x: entry_set(sparse.lil_matrix(DENSE)).tocsc() @ x,
    "blocks": lambda sparse, x: sparse.bmat([[sparse.eye(2), None], [None, sparse.csr_matrix(DENSE[:2, :2])]]) @ x,
    "side by side": lambda sparse, x: sparse.hstack([sparse.coo_array(DENSE[:, :1]), sparse.csr_array(DENSE[:, 1:])]) @ x,
    "tensor product": lambda sparse, x: sparse.kron(sparse.eye_array(2), sparse.dia_array(DENSE[:2, :2])) @ x,
    "diagonal arrays": lambda sparse, x: (
        sparse.block_diag([sparse.diags_array([[1.0, 2.0]], offsets=[1], shape=(2, 3)), DENSE[:2, :1]]) @ x
    ),
    "below one another": lambda sparse, x: sparse.vstack([sparse.identity(4), sparse.csr_array(DENSE)]).tolil() @ x,
    "array of blocks": lambda sparse, x: (
        sparse.block_array([[None, sparse.csc_array(DENSE[:3, :2])], [sparse.csr_array(DENSE[:2, :2]), None]]) @ x
    ),
    "triangles": lambda sparse, x: sparse.tril(sparse.csr_array(DENSE)) @ x - sparse.triu(sparse.csr_array(DENSE)) @ x,
    "sum of Kronecker": lambda sparse, x: sparse.kronsum(sparse.coo_array(DENSE[:2, :2]), DENSE[2:, 2:]) @ x,
    "sums and products": lambda sparse, x: (
        (sparse.csr_array(DENSE) @ sparse.coo_array(DENSE) + sparse.bsr_array(DENSE)).T @ (sparse.dok_array(DENSE) @ x)
    ),
}


def entry_set(matrix):
    matrix[0, 1] = 5.0
    return matrix


@pytest.mark.parametrize("name", MADE)
def test_matrices_however_they_are_made_multiply_traced_arrays(name):
    f = lambda x: MADE[name](ds, x)
    adapted = dualad.adapt(lambda x: MADE[name](sp, x))
    columns = MADE[name](sp, np.eye(4))
    for g in (f, adapted):
        assert g(VECTOR).tobytes() == MADE[name](sp, VECTOR).tobytes()
        np.testing.assert_allclose(dualad.jacobian(g)(VECTOR), columns, rtol=1e-14)
        np.testing.assert_allclose(grad(lambda x, g=g: np.sum(g(x)))(VECTOR), np.sum(columns, axis=0), rtol=1e-13)


def test_a_matrix_of_traced_entries():
    order = np.lexsort((COLUMNS, ROWS))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(ROWS))])
    for name in KINDS:
        make = lambda d, name=name: getattr(ds, name)((d, (ROWS, COLUMNS)), shape=(4, 4))
        wanted = getattr(sp, name)((DATA, (ROWS, COLUMNS)), shape=(4, 4))
        value, nnz = dualad.jvp(lambda d: (make(d) @ X, make(d).nnz), (DATA,), (DATA,))[0]
        assert value.tobytes() == (wanted @ X).tobytes() and nnz == wanted.nnz == 7, "SciPy adds up what is at one place"
        same_derivatives(lambda d: make(d) @ X, lambda d: dense(d) @ X, DATA)
        same_derivatives(lambda d: -(make(d).T @ VECTOR) / 2.0 + 3.0 * VECTOR @ make(d), lambda d: 2.5 * dense(d).T @ VECTOR, DATA)
    by_rows = lambda d: ds.csr_array((d[order], COLUMNS[order], indptr), shape=(4, 4))
    same_derivatives(lambda d: by_rows(d).toarray(), dense, DATA)
    both = lambda d: by_rows(d) @ np.cos(d[:4])
    same_derivatives(both, lambda d: dense(d) @ np.cos(d[:4]), DATA)
    single = DATA.astype(np.float32)
    assert grad(lambda d: np.sum(by_rows(d) @ VECTOR.astype(np.float32)))(single).dtype == np.float32


FREE = np.array([0, 2, 3])
MOVED = {
    "elimination": lambda s, d: s.linalg.spsolve(s.coo_matrix((d, (ROWS, COLUMNS)), shape=(4, 4)).tocsr()[FREE][:, FREE], VECTOR[:3]),
    "rows and columns": lambda s, d: square(s, d)[np.ix_(FREE, FREE)].toarray(),
    "mask and slice": lambda s, d: square(s, d)[np.arange(4) > 1][:, :3] @ VECTOR[:3],
    "an entry": lambda s, d: square(s, d).tocsc()[1, 1] * square(s, d)[0, 0] + square(s, d)[0, 1],
    "entries at one place": lambda s, d: doubled(s, d)[0, 0] * doubled(s, d)[:, [1]].toarray(),
    "sums": lambda s, d: (0.5 * s.eye_array(4) - 0.1 * square(s, d) + PLAIN) @ VECTOR,
    "differences": lambda s, d: (PLAIN - square(s, d).transpose() - square(s, d * d).tocsc()) @ VECTOR,
    "a sum of a list": lambda s, d: sum([square(s, d), square(s, d * d)]) @ VECTOR,
    "a sum with an array": lambda s, d: square(s, d) + DENSE,
    "diagonals": lambda s, d: s.diags([d[:3], np.ones(4), [1.0, d[3], 3.0]], [-1, 0, 1]) @ VECTOR,
    "numbers on diagonals": lambda s, d: s.diags([d[0], -2.0, d[1]], [-1, 0, 1], shape=(4, 4), format="csc") @ VECTOR,
    "a diagonal": lambda s, d: s.diags(d[:4]) @ VECTOR + s.diags_array([d[:4]], offsets=[0]) @ VECTOR,
    "blocks": lambda s, d: s.bmat([[square(s, d), PLAIN.T], [PLAIN, None]]).tocsr() @ np.tile(VECTOR, 2),
    "side by side": lambda s, d: s.hstack([square(s, d), s.vstack([PLAIN[:1], square(s, d)[1:]], format="csr")]) @ np.tile(VECTOR, 2),
    "diagonal blocks": lambda s, d: s.block_diag([square(s, d), np.ones((2, 2))]) @ np.ones(6),
    "triangles": lambda s, d: s.tril(square(s, d), -1) @ VECTOR + s.triu(square(s, d), k=1) @ VECTOR,
    "entries at pairs of indices": lambda s, d: square(s, d)[[0, 2, 0], [0, 2, 1]] * d[:3],
    "the diagonal": lambda s, d: square(s, d).diagonal() * d[:4],
    "blocks by name, in a dtype": lambda s, d: np.real(s.hstack(blocks=[square(s, d), PLAIN], dtype=complex) @ np.tile(VECTOR, 2)),
    "diagonals by name": lambda s, d: s.diags(diagonals=[d[:4], d[:3]], offsets=[0, 1], dtype=float) @ VECTOR,
    "numbers as blocks": lambda s, d: s.block_diag([square(s, d), 2.0, d[0], [1.0, d[1]]]) @ np.ones(8),
    "places in floats": lambda s, d: s.csr_array((d, (ROWS.astype(float), COLUMNS)), shape=(4, 4)) @ VECTOR,
    "no entries": lambda s, d: (s.csr_array((d[:0], ([], [])), shape=(4, 4)) + square(s, d)) @ VECTOR,
}


def square(sparse, data):
    return sparse.csr_array((data, (ROWS, COLUMNS)), shape=(4, 4))


def doubled(sparse, data):
    return sparse.csr_array((data[:4], np.array([0, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 2))


@pytest.mark.parametrize("name", MOVED)
def test_entries_are_moved_and_added_as_scipy_does(name):
    f = lambda data: MOVED[name](ds, data)
    wanted = np.asarray(MOVED[name](sp, DATA))
    value, tangent = dualad.jvp(f, (DATA,), (DATA,))
    assert np.asarray(value).tobytes() == wanted.tobytes()
    ahead, behind = (np.asarray(MOVED[name](sp, DATA * (1.0 + h))) for h in (1e-6, -1e-6))
    np.testing.assert_allclose(tangent, (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)
    weights = np.cos(np.arange(wanted.size)).reshape(wanted.shape)
    gradient = grad(lambda data: np.sum(weights * f(data)))(DATA)
    assert gradient @ DATA == pytest.approx(np.sum(weights * tangent), rel=1e-10)
    np.testing.assert_allclose(dualad.jit(grad(lambda data: np.sum(weights * f(data))))(DATA), gradient, rtol=1e-10)


def test_the_dtype_of_moved_entries_is_scipys_and_an_infinite_one_stays_at_its_place():
    for dtype in (bool, int, np.float32, np.complex64):  # of the entries: numbers of places would not survive the first
        f = lambda d, s, dtype=dtype: s.diags([d, d[1:]], [0, 1], dtype=dtype).toarray()
        value, tangent = dualad.jvp(lambda d, f=f: f(d, ds), (DATA,), (2.0 * DATA,))
        assert value.dtype == dtype and value.tobytes() == f(DATA, sp).tobytes()
        np.testing.assert_array_equal(tangent, f(2.0 * DATA, sp) if np.dtype(dtype).kind in "fc" else 0.0)
    infinite = np.append(-np.inf, DATA[1:])
    for f in (lambda s, d: square(s, d).toarray(), lambda s, d: square(s, d)[0, 1], lambda s, d: square(s, d)[[0, 0], [1, 0]]):
        value, _ = dualad.jvp(lambda d, f=f: f(ds, d), (infinite,), (DATA,))
        assert np.asarray(value).tobytes() == np.asarray(f(sp, infinite)).tobytes()


def test_solutions():
    for a in (PLAIN, sp.csc_array(PLAIN), ds.csc_matrix(PLAIN)):
        for b in (VECTOR, X):
            value = dualad.jvp(lambda b, a=a: dl.spsolve(a, b), (b,), (b,))[0]
            assert value.tobytes() == spl.spsolve(a, b).tobytes() == dl.spsolve(a, b).tobytes()
            same_derivatives(lambda b, a=a: dl.spsolve(a, b), lambda b: np.linalg.solve(DENSE, b), b)
    for name in KINDS:
        make = lambda d, name=name: getattr(ds, name)((d, (ROWS, COLUMNS)), shape=(4, 4))
        for b in (VECTOR, X):
            value = dualad.jvp(lambda d, b=b: dl.spsolve(make(d), b), (DATA,), (DATA,))[0]
            wanted = spl.spsolve(getattr(sp, name)((DATA, (ROWS, COLUMNS)), shape=(4, 4)), b)
            assert value.tobytes() == wanted.tobytes()
            same_derivatives(lambda d, b=b: dl.spsolve(make(d), b, permc_spec="NATURAL"), lambda d, b=b: np.linalg.solve(dense(d), b), DATA)
    assert dl.spsolve(PLAIN, X[:, :1]).shape == dualad.jvp(lambda b: dl.spsolve(PLAIN, b), (X[:, :1],), (X[:, :1],))[0].shape == (4,)
    rotated = sp.csc_array(DENSE + 1j * DENSE.T)
    t = VECTOR + 1j * X[:, 1]
    value, slope = dualad.jvp(lambda b: dl.spsolve(rotated, b * b), (t,), (t,))
    np.testing.assert_allclose(slope, 2.0 * value, rtol=1e-12)


def test_factors_of_a_plain_matrix():
    factors, scipys = dl.splu(sp.csc_array(PLAIN)), spl.splu(sp.csc_array(PLAIN))
    for trans, matrix in (("N", DENSE), ("T", DENSE.T), ("H", DENSE.T)):
        for b in (VECTOR, X):
            value = dualad.jvp(lambda b, trans=trans: factors.solve(b, trans), (b,), (b,))[0]
            assert value.tobytes() == scipys.solve(b, trans).tobytes() == factors.solve(b, trans).tobytes()
            same_derivatives(lambda b, trans=trans: factors.solve(b, trans), lambda b, matrix=matrix: np.linalg.solve(matrix, b), b)
    assert (factors.nnz, factors.shape) == (scipys.nnz, scipys.shape)
    same_derivatives(dl.factorized(sp.csc_array(PLAIN)), lambda b: np.linalg.solve(DENSE, b), VECTOR)


def test_they_compile_and_are_found_in_adapted_code():
    pytest.importorskip("llvmlite")

    def others(d):
        a = sp.csr_array((d, (ROWS, COLUMNS)), shape=(4, 4))
        ones = sp.csr_array((np.ones(4), (COLUMNS[:4], ROWS[:4])), shape=(4, 4))
        assert isinstance(sp.csr_array(PLAIN), sp.csr_array) and (ones + ones.T).sum() == 8.0, "of plain numbers it is SciPy's"
        return np.sum(spl.spsolve(a, VECTOR) ** 2) + np.sum((sp.csr_array(PLAIN) @ d[:4]) ** 2)

    adapted = dualad.adapt(others)
    wanted = grad(lambda d: np.sum(np.linalg.solve(dense(d), VECTOR) ** 2) + np.sum((DENSE @ d[:4]) ** 2))(DATA)
    np.testing.assert_allclose(grad(adapted)(DATA), wanted, rtol=1e-9)
    np.testing.assert_allclose(dualad.jit(grad(adapted))(DATA), wanted, rtol=1e-9)


def test_what_has_no_derivative_is_said():
    cases = [
        (lambda a, x: a @ x[:3], r"shape \(4, 4\) times an array of shape \(3,\)"),
        (lambda a, x: a @ PLAIN, r"times a sparse matrix: .*a @ \(b @ x\)"),
        (lambda a, x: PLAIN @ a, r"times a sparse matrix: .*a @ \(b @ x\)"),
        (lambda a, x: a * x, "is multiplied by numbers"),
        (lambda a, x: dl.splu(a), r"splu has no derivative by the entries of the matrix: write spsolve\(A, b\)"),
        (lambda a, x: dl.spsolve(a, PLAIN), r"no derivative of sparse right-hand sides: give an array, b.toarray\(\)"),
        (lambda a, x: ds.linalg.gmres(PLAIN, x), "scipy.sparse.linalg.gmres has no derivative here"),
        (lambda a, x: sp.csr_array(PLAIN) @ x, r"write x @ M.T .*dualad.scipy.sparse.csr_array\(M\)"),
        (lambda a, x: ds.kron(a, PLAIN), "scipy.sparse.kron takes no traced entries: give csr_array"),
        (lambda a, x: a.__setitem__((0, 0), x[0]), r"cannot be changed: .*A\[free\]\[:, free\]"),
        (lambda a, x: a.multiply(x), r"traced entries has no multiply: it has @, \+, -"),
        (lambda a, x: a + PLAIN[:3], r"shape \(4, 4\) plus one of shape \(3, 4\)"),
        (lambda a, x: ds.dia_array((x[None], [0]), shape=(4, 4)) @ x, r"scipy.sparse.dia_array takes no traced entries: give csr_array"),
    ]
    of_data = lambda call: lambda d: call(ds.csr_array((d, (ROWS, COLUMNS)), shape=(4, 4)), d[:4])
    check_refused(DATA, [(of_data(call), words) for call, words in cases])
