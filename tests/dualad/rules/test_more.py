"""Rows that the table of samples cannot hold: files, kinks, closed forms, degenerate cases of decompositions and statistics."""

import warnings

import mpmath
import numpy as np
import pytest

import dualad
from checkpoint import grad, vjp
from dualad import jacobian, jit, jvp
from dualad.core.dispatch import primal
from dualad.testing import check_derivatives

X = np.array([0.7, -1.3, 2.1])
A = np.random.default_rng(5).standard_normal((4, 3))


NO_KIND = r"dtype=.* has no derivative: give one of floats or complex numbers"
REFUSED = {
    "full_like of a plain array": (lambda a: np.full_like(np.zeros(3), a[0, 0]), TypeError, r"np\.ones_like\(a\) \* v"),
    "qr, raw": (lambda a: np.linalg.qr(a, mode="raw"), TypeError, "mode='raw' has no derivative rule"),
    "counts of floats": (lambda a: np.bincount(a[0]), TypeError, r"numpy\.bincount: x counts integers"),
    "pad": (lambda a: np.pad(a, 2, mode="edge", stat_length=1), ValueError, "unsupported keyword arguments for mode 'edge'"),
    "pad by a function": (lambda a: np.pad(a, 2, mode=lambda *rest: None), TypeError, r"numpy\.pad: a function as mode="),
    "roll": (lambda a: np.roll(a, 1, axis=2), np.exceptions.AxisError, "axis 2"),
    "signature": (lambda a: np.add(a, a, signature="dd->d"), TypeError, r"numpy\.add: signature= has no derivative rule"),
    "axes": (lambda a: np.matmul(a, a, axes=[(0, 1)] * 3), TypeError, r"numpy\.matmul: axes= has no derivative rule"),
    "sum to objects": (lambda a: np.sum(a, dtype=object), TypeError, NO_KIND),
    "sum to texts": (lambda a: np.add(a, a, dtype="S3"), TypeError, NO_KIND),
    "maximum to objects": (lambda a: np.maximum.reduce(a, dtype=object), TypeError, NO_KIND),
}


@pytest.mark.parametrize(("f", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_derivative_is_refused(f, error, words):
    for verb in (lambda: jvp(f, (A,), (A,)), lambda: vjp(f, A)):
        with pytest.raises(error, match=words):
            verb()


# --- files, paths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.save, np.savetxt, np.savez, np.savez_compressed])
@pytest.mark.parametrize("verb", [lambda f: jvp(f, (X,), (X,)), lambda f: grad(f)(X), lambda f: dualad.jit(f)(X)])
def test_saving_traced_values_is_refused(save, verb, tmp_path):
    """What is loaded again would be a constant, so that a gradient through a file would be a silent zero."""
    with pytest.raises(TypeError, match=rf"numpy\.{save.__name__} has no derivative: .*Save plain values: dualad\.primal\(x\)"):
        verb(lambda x: save(tmp_path / "x", x) or np.sum(x))
    jvp(lambda x: save(tmp_path / "x", dualad.primal(x)) or x, (X,), (X,))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (0, 2), (3, 2)])
def test_einsum_refuses_a_diagonal_of_different_lengths(shape):
    for f in (lambda x: np.einsum("ii->i", x), lambda x: np.einsum("ii,j->ij", x, np.ones(3))):
        for verb in (lambda f, x: jvp(f, (x,), (x,)), vjp, lambda f, x: jit(f)(x)):
            with pytest.raises(ValueError, match=r"axes of 'i' have different lengths|collapsing index 'i' don't match"):
                verb(f, np.ones(shape))


def test_the_path_of_einsum_is_constant():
    seen = []
    grad(lambda a: seen.append(np.einsum_path("ij,jk,k->i", a, a.T, a[:, 0])[0]) or np.sum(a))(A)
    assert seen == [np.einsum_path("ij,jk,k->i", A, A.T, A[:, 0])[0]]


# --- methods of ufuncs ------------------------------------------------------------------------------------------------------


def test_logaddexp_reduce_of_nothing_but_minus_infinity():
    x = np.full(3, -np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, tangent = jvp(np.logaddexp.reduce, (x,), (np.ones(3),))
    assert value == -np.inf and tangent == 0.0


def test_running_maximum_past_nan():
    value, tangent = jvp(np.maximum.accumulate, (np.array([1.0, 3.0, 2.0, np.nan, 5.0]),), (np.arange(1.0, 6.0),))
    np.testing.assert_array_equal(value, [1.0, 3.0, 3.0, np.nan, np.nan])
    np.testing.assert_array_equal(tangent, [1.0, 2.0, 2.0, 4.0, 4.0])


# --- decompositions ---------------------------------------------------------------------------------------------------------


def hermitian(z):
    return z + np.conjugate(np.swapaxes(z, -1, -2))


C = np.random.default_rng(8).standard_normal((3, 3)) + 1j * np.random.default_rng(9).standard_normal((3, 3))


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda z: np.abs(np.linalg.eigh(hermitian(z))[1]) ** 2, C),
        (lambda z: np.abs(np.linalg.eig(z)[1]) ** 2, C),
        (lambda z: np.abs(np.linalg.svd(z, full_matrices=False)[0]) ** 2, C[:, :2]),
        (lambda z: np.abs(np.linalg.svd(z, full_matrices=False)[2]) ** 2, C[:2]),
        (lambda z: np.linalg.svd(z)[0][:, :2] @ np.linalg.svd(z)[2], C[:, :2]),
    ],
    ids=["eigh", "eig", "svd left", "svd right", "polar factor"],
)
def test_complex_vectors_up_to_their_phases(f, x):
    check_derivatives(f, x, vjp=vjp)


def test_a_full_basis_turns_with_the_matrix():
    def projector(a):
        rest = np.linalg.svd(a)[0][:, 2:]
        return rest @ np.conjugate(rest.T)

    check_derivatives(projector, np.ascontiguousarray(A[:, :2]), vjp=vjp)
    check_derivatives(lambda a: np.linalg.svd(a.T)[2][2:].T @ np.linalg.svd(a.T)[2][2:], np.ascontiguousarray(A[:, :2]), vjp=vjp)
    check_derivatives(
        lambda a: np.linalg.qr(a, "complete")[0][:, 2:] @ np.linalg.qr(a, "complete")[0][:, 2:].T, np.ascontiguousarray(A[:, :2]), vjp=vjp
    )


def test_repeated_eigenvalues_have_derivatives_their_vectors_do_not():
    t = hermitian(np.array([[1.0, 2.0], [3.0, 4.0]])) / 2
    assert jvp(np.linalg.eigvalsh, (np.eye(2),), (np.diag([1.0, 2.0]),))[1] == pytest.approx([1.0, 2.0])
    assert grad(lambda a: np.sum(np.linalg.eigh(a)[0] ** 2))(np.eye(2)) == pytest.approx(2 * np.eye(2))
    for f in (np.linalg.eigh, np.linalg.svd):
        with pytest.warns(RuntimeWarning, match="some of its values coincide"):
            parts = jvp(f, (np.eye(2),), (t if f is np.linalg.eigh else np.array([[1.0, 2.0], [3.0, 4.0]]),))[1]
        assert np.isnan(parts[1 if f is np.linalg.eigh else 0]).any()
    with pytest.warns(RuntimeWarning, match="some of its values coincide"):
        gradient = grad(lambda a: np.sum(np.linalg.eigh(a)[1] * A[:2, :2]))(np.eye(2))
    assert np.isnan(gradient).any()


def test_only_one_triangle_is_read():
    s = hermitian(A[:3]) + 6 * np.eye(3)
    for f in (np.linalg.cholesky, np.linalg.eigvalsh):
        assert np.triu(grad(lambda a, f=f: np.sum(f(a)))(s), 1) == pytest.approx(0.0)
    assert np.tril(grad(lambda a: np.sum(np.linalg.eigvalsh(a, "U")))(s), -1) == pytest.approx(0.0)


def test_least_squares_of_a_matrix_without_full_rank():
    a = np.outer(X, [1.0, 2.0])
    check_derivatives(lambda b: np.linalg.lstsq(a, b)[0], X[::-1].copy(), vjp=vjp)
    assert jvp(lambda b: np.linalg.lstsq(a, b), (X,), (X,))[0][1].shape == (0,)


# --- statistics, sets, sequences --------------------------------------------------------------------------------------------


def test_all_nan():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(jvp(np.nanmax, (np.full(2, np.nan),), (np.ones(2),))[0])
        assert np.isnan(jvp(np.median, (np.array([1.0, np.nan]),), (np.ones(2),))[0])


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("f", [np.quantile, np.nanquantile])
def test_weighted_quantiles_are_elements(f, axis):
    if type(axis) is tuple and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        with pytest.raises(TypeError, match=r"NumPy 2\.0 gives wrong values"):
            jvp(lambda a: f(a, 0.3, axis=axis, weights=np.ones((2, 2)), method="inverted_cdf"), (np.ones((2, 2)),), (np.ones((2, 2)),))
        return
    a = np.array([[3.0, 1.0, 2.5, 0.5], [2.0, 9.0, 4.0, 7.0], [8.0, 6.0, 5.0, 5.5]])
    weights = np.array([[1.0, 2.0, 0.0, 1.0], [3.0, 1.0, 1.0, 2.0], [1.0, 1.0, 4.0, 0.5]])
    for q in (0.3, np.array([0.1, 0.5, 1.0])):
        call = lambda a: f(a, q, axis=axis, weights=weights, method="inverted_cdf")
        value = jvp(call, (a,), (a,))[0]
        np.testing.assert_array_equal(value, call(a))
        check_derivatives(call, a, vjp=vjp)
        np.testing.assert_array_equal(jvp(call, (a,), (a,))[1], value)  # an element, so the tangent along a is the value
    if axis in (0, 1) and f is np.quantile:  # NumPy's nanquantile does not take weights along an axis
        along = np.arange(1.0, a.shape[axis] + 1)
        check_derivatives(lambda a: f(a, 0.6, axis=axis, weights=along, method="inverted_cdf"), a, vjp=vjp)
    percent = lambda a: np.percentile(a, 30.0, axis=axis, weights=weights, method="inverted_cdf", keepdims=True)
    assert np.shape(jvp(percent, (a,), (a,))[1]) == np.shape(percent(a))


PADS = [
    {"mode": "linear_ramp"},
    {"mode": "linear_ramp", "end_values": (3.0, -1.0)},
    {"mode": "linear_ramp", "end_values": ((3.0, -1.0), (2.0, 0.5))},
    {"mode": "mean"},
    {"mode": "mean", "stat_length": 2},
    {"mode": "maximum", "stat_length": ((1, 2), (3, 9))},
    {"mode": "maximum"},
    {"mode": "minimum"},
    {"mode": "median"},
    {"mode": "median", "stat_length": (1, 2)},
    {"mode": "reflect", "reflect_type": "odd"},
    {"mode": "symmetric", "reflect_type": "odd"},
    {"mode": "reflect"},
    {"mode": "symmetric"},
]


@pytest.mark.parametrize("options", PADS, ids=str)
def test_pads(options):
    for a, widths in ((A, 2), (A, ((0, 3), (2, 0))), (A[:, :1] * 1.0, ((1, 1), (2, 3))), (A[:3, :2] * 1.0, 7), (X, 11)):
        if a.ndim == 1 and max(np.ndim(options.get(name, 0)) for name in ("end_values", "stat_length")) == 2:
            continue
        if options["mode"] == "median" and a.ndim == 2:  # of medians, which coincide
            widths = ((0, 0), (2, 3))
        call = lambda a: np.pad(a, widths, **options)
        np.testing.assert_array_equal(jvp(call, (a,), (a,))[0], call(a))
        check_derivatives(call, a, vjp=vjp)
        np.testing.assert_array_equal(jacobian(call, chunk=1)(a), jacobian(call, chunk=a.shape[-1])(a))


def test_a_pad_that_is_left_empty():
    inner = jvp(lambda a: np.pad(a, 2, mode="empty"), (A,), (A,))[1][2:-2, 2:-2]
    np.testing.assert_array_equal(inner, A)


def test_polynomials_in_two_variables():
    from numpy.polynomial import polynomial

    x, y = X[:2], X[1:]
    functions = [polynomial.polyval2d, polynomial.polygrid2d]
    if hasattr(polynomial, "polyvalnd"):
        functions += [lambda x, y, c: polynomial.polyvalnd((x, y), c), lambda x, y, c: polynomial.polyvalnd(np.stack([x, y]), c)]
    if not hasattr(polynomial.polyval2d, "__wrapped__"):  # before NumPy 2.4 they convert their arguments
        functions = []
    for f in functions:
        for c in (A[:3, :2], A[:1, :2], A[:2, :1], np.ones((2, 3, 2))):
            assert np.array_equal(jvp(f, (x, y, c), (x, y, c))[0], f(x, y, c))
            check_derivatives(f, x, y, c, vjp=vjp)
        c = np.array([[1, 2], [3, 4]], dtype=np.int8)
        single = jvp(lambda x: f(x, x, c), (np.float32([0.5, 2.0]),), (np.ones(2, np.float32),))[0]
        assert single.dtype == f(np.float32([0.5]), np.float32([0.5]), c).dtype


def test_a_complex_power_has_numpys_dtype():
    x = np.array([0.5 + 1.0j, -2.0, 1.0j], np.complex64)
    for f in (lambda x: np.emath.power(x, 2), lambda x: np.emath.power(2, x), lambda x: np.emath.power(abs(x), 1j)):
        for one in (x, x[0], 0.5 - 2.0j):
            value, tangent = jvp(f, (one,), (one,))
            assert type(value) is type(f(one)) and np.array_equal(value, f(one))
            assert value.dtype == f(one).dtype == tangent.dtype
        check_derivatives(f, 0.5 - 2.0j, vjp=vjp)


@pytest.mark.parametrize("f", [np.nansum, np.nanprod, np.nancumsum, np.nancumprod], ids=lambda f: f.__name__)
def test_sums_and_products_without_nan_take_the_elements_in_numpys_order(f):
    x = np.cos(np.arange(7.0 * 33 * 9)).reshape(7, 33, 9)
    x[x > 0.9] = np.nan
    for given in (x, x.transpose(1, 2, 0), x[::-1, :, ::-2], np.broadcast_to(x[0], x.shape), np.float32(x[:, ::3])):
        for axis in (None, 0, -1):
            assert jvp(lambda x, axis=axis: f(x, axis=axis), (given,), (given,))[0].tobytes() == f(given, axis=axis).tobytes()


def test_arcsine_on_its_cut():
    for f, exact in ((np.emath.arcsin, mpmath.asin), (np.emath.arccos, mpmath.acos)):
        for x in (1.5, -2.5):
            # just above the cut, where NumPy's value is the limit
            assert jvp(f, (x,), (1.0,))[1] == pytest.approx(complex(mpmath.diff(exact, mpmath.mpc(x, 1e-12))), rel=1e-6)


@pytest.mark.parametrize("f", [np.arcsin, np.arccos, np.arcsinh, np.arccosh, np.arctanh], ids=lambda f: f.__name__)
def test_signs_of_zeros_choose_the_side_of_a_cut(f):
    for x in (-1.6, -0.4, 0.3, 1.6):
        for zero in (0.0, -0.0):
            for z, step in ((complex(x, zero), 1e-6), (complex(zero, x), 1e-6j)):
                at = lambda h: f(complex(z.real + h, z.imag) if z.imag == zero else complex(z.real, z.imag + h))  # keeps the other part
                along = (at(1e-6) - at(-1e-6)) / (2.0 * step)
                assert jvp(f, (z,), (1.0 + 0.0j,))[1] == pytest.approx(along, rel=1e-6)
                assert jvp(f, (np.array([z]),), (np.ones(1, complex),))[1] == pytest.approx(along, rel=1e-6)


def test_roots_see_values():
    x = np.array([0.0, 2.0, -3.0, 1.0, 0.0])
    roots, slopes = jvp(np.roots, (x,), (np.array([0.0, 0.0, 0.0, 1.0, 0.0]),))
    assert sorted(primal(roots)) == pytest.approx([0.0, 0.5, 1.0])
    order = np.argsort(roots)
    assert slopes[order] == pytest.approx([0.0, 1.0, -1.0])  # dr = -1 / (4 r - 3)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")
@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_the_gradient_of_a_mean_of_no_elements_is_empty(shape):
    """A Python float was divided by the number of elements."""
    x = np.zeros(shape)
    for f in (np.mean, lambda x: np.sum(np.mean(x, -1)), lambda x: np.sum(np.mean(x, 0))):
        assert grad(f)(x).shape == shape


def test_samples_outside_of_all_bins_are_not_counted():
    """At the first edge a sample lies in the first bin, at the last one in the last bin, beyond them in none."""
    x, y = np.array([-0.5, 0.0, 0.4, 1.0, 2.0, 2.5, 1.9]), np.array([0.5, 0.0, 3.0, 1.0, 3.0, 0.5, -0.1])
    w, v = np.arange(1.0, 8.0), np.array([1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6])
    edges = [np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.5, 3.0])]
    for count in (lambda w: np.histogram2d(x, y, edges, weights=w)[0], lambda w: np.histogramdd((x, y), edges, weights=w)[0]):
        value, tangent = dualad.jvp(count, (w,), (v,))
        np.testing.assert_array_equal(value, count(w))
        np.testing.assert_array_equal(tangent, count(v))


def test_a_rolled_array_is_what_numpy_makes_in_values_and_layout():
    for a in (A, np.asfortranarray(A), A[::-1], A.astype(np.float32), A[:0]):
        for shift, axis in ((0, 0), (1, 0), (-6, 1), (2, -1), (np.int64(1), 0), ((1, 2), (0, 1)), (3, None)):
            value, tangent = jvp(lambda x, s=shift, i=axis: np.roll(x, s, i), (a,), (2.0 * a,))
            expected = np.roll(a, shift, axis)
            assert value.tobytes() == expected.tobytes() and tangent.tobytes() == (2.0 * expected).tobytes()
            assert value.dtype == expected.dtype and value.strides == expected.strides
            assert vjp(lambda x, s=shift, i=axis: np.roll(x, s, i), a)[1](expected)[0].tobytes() == a.tobytes()
