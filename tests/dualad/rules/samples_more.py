"""Sample calls of the rows beyond the everyday ones: enters them into the tables of `samples`."""

import contextlib

import samples
from samples import CONSTANTS, SAMPLES, A, B, D, Fixed, G, M, P, Sample, Z, call, fixed, over, sample

from dualad.rules import ROWS
from dualad.rules.calculus import bessel_i0, convolve_full
from dualad.rules.calling import public_name
from dualad.rules.constants import evaluate
from dualad.rules.decompositions import close_pairs, qr_factors, singular_values, svd_factors, warn_close
from dualad.rules.kinds import brought
from dualad.rules.late import late_row
from dualad.rules.least_squares import pseudo_inverse
from dualad.rules.names import Absent, np
from dualad.rules.ufunc_methods import add_reduceat, leader

scimath = np.lib.scimath


def words(text):
    return text.split()


samples.random.bit_generator.state = np.random.default_rng(21).bit_generator.state  # the same samples whatever `samples` holds

#: rows tested elsewhere: they write into their first argument, or make arrays
ELSEWHERE = {
    f"numpy.{name}"
    for name in words(
        "copyto put putmask place fill_diagonal put_along_axis zeros ones empty full eye identity tri arange array asarray asanyarray "
        "ascontiguousarray asfortranarray require fromfunction frombuffer fromfile fromiter fromstring loadtxt genfromtxt save savez "
        "savez_compressed savetxt einsum_path trapz in1d _core.umath.clip"
    )
}
#: rows of functions that only see Hermitian matrices, or a fixed basis: tested by what calls them
ELSEWHERE |= {
    f"dualad.rules.decompositions.{name}"
    for name in words("cholesky_factor eigh_factors eigenvalues eigen_factors general_eigenvalues complement")
}

#: rows of which an argument is a function of the others, so that their partials are total: tested by the ufuncs that they are parts of
ELSEWHERE |= {f"dualad.rules.stable.{name}" for name in words("cosine sech_squared exp_of_expm1")}

#: a row that says how an array lies in memory: tested by ``ravel`` and ``reshape`` under jit
ELSEWHERE |= {"dualad.rules.memory.axes_and_order"}

#: rows of packages imported late: see test_special and test_more
with contextlib.suppress(ImportError):
    import scipy.special  # noqa: F401
late_row(None)
ELSEWHERE |= {ROWS[fn].name for fn in brought}

#: functions whose K directions are looped over one by one
LOOPED = ["dualad.rules.calculus.convolve_full", "numpy.insert"]

#: rows that look at values, because only then a shape or dtype is known
VALUE_DEPENDENT = {
    "numpy.linalg.lstsq": "the residuals are empty where the rank is not full",
    "numpy.real_if_close": "real where the imaginary parts are small",
    "numpy.trim_zeros": "zeros are looked for",
    "numpy.poly": "real where the zeros come in conjugate pairs",
    "numpy.polydiv": "the remainder is trimmed",
    "numpy.polymul": "zeros in front are trimmed",
    "numpy.polyfit": "it is built on lstsq",
    "numpy.roots": "zeros in front and at the end are trimmed",
    **{
        public_name(getattr(scimath, name)): "complex where the values leave the real domain"
        for name in words("sqrt log log2 log10 power arccos arcsin arctanh logn")
    },
    **{
        f"numpy.{name}": "how many elements differ"
        for name in words("unique unique_all unique_counts unique_inverse unique_values union1d intersect1d setdiff1d setxor1d")
    },
    **{
        f"numpy.{name}": "the bins of the samples come from their values"
        for name in words("histogram histogram2d histogramdd histogram_bin_edges")
    },
}


# fmt: off
# --- Fourier transforms -----------------------------------------------------------------------------------------------------

NORMS = [{}, {"norm": "ortho"}, {"norm": "forward"}, {"norm": "backward"}]
LENGTHS = [{"n": 3}, {"n": 4}, {"n": 7}, {"n": 8}, {"n": 1}, {"n": 2}]
sample(np.fft.fft, np.fft.ifft)(*over(*NORMS, *LENGTHS, {"axis": 0}, {"axis": -2, "n": 5, "norm": "ortho"})(Z(4, 5)), call(A(5)), call(A(4)), call(A(2, 3, 4), axis=1))
sample(np.fft.rfft, np.fft.ihfft)(*over(*NORMS, *LENGTHS, {"axis": 0}, {"axis": -2, "n": 5, "norm": "ortho"}, {"axis": 0, "n": 3})(A(4, 5)), call(A(5)), call(A(4)), call(A(1)), call(A(2, 3, 4), axis=1))
sample(np.fft.irfft, np.fft.hfft)(*over(*NORMS, *LENGTHS, {"axis": 0}, {"axis": -2, "n": 5, "norm": "ortho"}, {"axis": 0, "n": 9})(Z(4, 5)), call(Z(5)), call(Z(4)), call(A(4)), call(Z(2, 3, 4), axis=1))
PLANES = [{}, {"norm": "ortho"}, {"s": (3, 5)}, {"s": (4, 2), "norm": "forward"}, {"axes": (0, 1)}, {"axes": (-1, 0), "s": (3, 5)}]
sample(np.fft.fft2, np.fft.ifft2, np.fft.irfft2)(*over(*PLANES)(Z(2, 4, 3)), call(Z(3, 4)))
sample(np.fft.fft2, np.fft.ifft2, np.fft.rfft2)(*over(*PLANES)(A(2, 4, 3)), call(A(3, 4)))
sample(np.fft.fftn, np.fft.ifftn, np.fft.irfftn)(*over(*PLANES[:2], {"axes": (1,)}, {"s": (2, 3, 3), "axes": (0, 1, 2)}, {"axes": (2, 0), "norm": "ortho"})(Z(2, 3, 4)), call(Z(4)))
sample(np.fft.fftn, np.fft.rfftn)(*over(*PLANES[:2], {"axes": (1,)}, {"s": (2, 3, 3), "axes": (0, 1, 2)}, {"axes": (2, 0), "s": (3, 3)})(A(2, 3, 4)), call(A(4)))
sample(np.fft.fftshift, np.fft.ifftshift)(call(A(5)), call(A(4)), call(A(4, 5)), call(A(4, 5), 1), call(A(4, 5), axes=(0,)), call(Z(5)), call(A(2, 3, 4), axes=(-1, 0)))

# --- methods of ufuncs ------------------------------------------------------------------------------------------------------

sample(add_reduceat)(call(A(5), [0, 2, 1]), call(A(4, 3), [0, 3], axis=0), call(A(2, 5), np.array([1, 1, 4, 0]), -1), call(A(5), [3]))

# --- decompositions ---------------------------------------------------------------------------------------------------------

def spread(*shape):
    """Matrices whose values are far apart and whose other elements are far from 0, so that no vector changes its sign within a step."""
    return samples.random.uniform(0.4, 0.6, shape) + np.eye(*shape[-2:]) * (1.0 + 4.0 * np.arange(shape[-1]))


def S(*shape):
    """Symmetric positive definite matrices."""
    a = spread(*shape)
    return (a + np.swapaxes(a, -1, -2)) / 2.0


def H(*shape):
    """Hermitian positive definite matrices."""
    return S(*shape) + 0.3j * np.triu(np.ones(shape), 1) - 0.3j * np.tril(np.ones(shape), -1)


def W(m, n, *stack):
    """Matrices with well separated singular values."""
    return spread(*stack, m, n) - 0.2


def R(m, n, *stack):
    """Matrices with columns far from dependent."""
    return 0.3 * A(*stack, m, n) + 2.0 * np.eye(m, n)


SQUARES = [call(S(3, 3)), call(S(2, 3, 3)), call(S(1, 1)), call(S(4, 4))]
sample(np.linalg.cholesky)(*SQUARES, call(H(3, 3)), call(H(2, 2, 2)))
sample(np.linalg.cholesky)(call(S(3, 3), upper=True), call(H(2, 2), upper=True))
sample(np.linalg.eigh)(*SQUARES)
sample(np.linalg.eigh, np.linalg.eigvalsh)(call(S(3, 3), "U"), call(S(3, 3) + np.triu(A(3, 3)), UPLO="L"))
sample(np.linalg.eigvalsh)(*SQUARES, call(H(3, 3)), call(H(3, 3), "U"))
sample(np.linalg.eig)(call(spread(3, 3)), call(np.array([[1.0, 2.0], [-1.5, 0.7]])), call(spread(3, 3) + 0.3j), call(spread(2, 2, 2)))
sample(np.linalg.eigvals)(call(spread(3, 3)), call(np.array([[1.0, 2.0], [-1.5, 0.7]])), call(spread(3, 3) + 0.3j), call(spread(2, 2, 2) * (1.0 - 0.2j)), call(A(1, 1)))
sample(np.linalg.svd, svd_factors)(call(W(3, 3)), call(W(4, 3), False), call(W(2, 4), False), call(W(3, 2, 2), False), call(A(1, 1)))
sample(np.linalg.svd)(call(W(3, 2)), call(W(2, 3)), call(W(4, 3), full_matrices=True), call(S(3, 3), hermitian=True), call(W(4, 3), compute_uv=False), call(S(3, 3), compute_uv=False, hermitian=True))
sample(singular_values, np.linalg.svdvals)(call(W(3, 3)), call(W(4, 2)), call(W(2, 3, 2)), call(Z(3, 2)), call(Z(2, 2, 2)))
sample(np.linalg.qr)(call(R(3, 3)), call(R(4, 2)), call(R(2, 4)), call(R(3, 2, 2)), call(R(3, 2) * (1.0 + 0.3j)), call(0.3 * Z(2, 3) + 2.0 * np.eye(2, 3)), call(R(4, 3), "r"), call(R(3, 2), mode="complete"),
                     call(R(2, 3), mode="complete"), call(0.3 * Z(3, 3) + 2.0 * np.eye(3)))
sample(qr_factors)(call(R(3, 3)), call(R(4, 2)), call(0.3 * Z(3, 2) + 2.0 * np.eye(3, 2)))
sample(np.linalg.pinv)(call(W(3, 3)), call(W(4, 2)), call(W(2, 4)), call(W(2, 3, 2)), call(Z(3, 2)), call(Z(2, 3)), call(S(3, 3), hermitian=True), call(W(3, 2), rcond=1e-10), call(W(3, 2), rtol=None))
sample(pseudo_inverse)(call(W(3, 2), None, False), call(Z(2, 3), None, False))
sample(np.linalg.slogdet)(call(M(3, 3)), call(M(2, 3, 3)), call(-M(3, 3)), call(Z(3, 3)), call(Z(2, 2, 2)), call(M(1, 1)))
sample(np.linalg.lstsq)(call(W(4, 2), A(4)), call(W(4, 2), A(4, 3)), call(W(2, 4), A(2)), call(W(3, 3), A(3, 1)), call(Z(4, 2), Z(4)), call(W(4, 2), Fixed(A(4))), call(W(4, 2), A(4), rcond=-1))

# --- products ---------------------------------------------------------------------------------------------------------------

sample(np.cross)(call(A(3), A(3)), call(A(2, 3), A(3)), call(A(3, 2), A(3, 2), axis=0), call(A(2, 3), A(3, 2), axisb=0), call(A(2, 3), A(2, 3), -1, -1, 0), call(Z(3), A(3)))
sample(np.linalg.cross)(call(A(3), A(3)), call(A(2, 3), A(3)), call(A(3, 2), A(3, 2), axis=0))
sample(np.linalg.outer)(call(A(3), A(2)), call(Z(3), Z(2)))
sample(np.linalg.matmul)(call(A(2, 3), A(3, 4)), call(A(2, 3), A(3)))
sample(np.linalg.tensordot)(call(A(2, 3), A(3, 4), axes=1), call(A(2, 3), A(2, 3)))
sample(np.linalg.vecdot, np.vecdot)(call(A(3), A(3)), call(A(2, 3), A(3)), call(Z(3), Z(3)), call(Z(2, 3), A(2, 3)), call(A(3, 2), A(3, 2), axis=0), call(A(0), A(0)))
sample(np.matvec)(call(A(2, 3), A(3)), call(A(4, 2, 3), A(3)), call(Z(2, 3), Z(4, 3)))
sample(np.vecmat)(call(A(2), A(2, 3)), call(A(2), A(4, 2, 3)), call(Z(4, 2), Z(2, 3)))
sample(np.linalg.diagonal, np.linalg.trace)(call(A(3, 3)), call(A(2, 3, 4)), call(A(2, 3), offset=1))
sample(np.matrix_transpose, np.linalg.matrix_transpose)(call(A(2, 3)), call(A(2, 3, 4)))
sample(np.linalg.matrix_power)(*(call(M(2, 2), n) for n in (-2, -1, 0, 1, 2, 3, 5)), call(Z(2, 2), 3), call(M(2, 2, 2), 3))
sample(np.linalg.multi_dot)(call([A(2, 3), A(3, 4)]), call([A(3), A(3, 4), A(4, 2)]), call([A(3), A(3, 3), A(3)]), call([A(10, 2), A(2, 8), A(8, 3), A(3, 1)]))
sample(np.linalg.tensorinv)(call(A(2, 3, 6) + 3.0 * np.eye(6).reshape(2, 3, 6)), call(A(4, 2, 2) + 3.0 * np.eye(4).reshape(4, 2, 2), ind=1))
sample(np.linalg.tensorsolve)(call(A(2, 3, 6) + 3.0 * np.eye(6).reshape(2, 3, 6), A(2, 3)), call(A(2, 2, 4) + 3.0 * np.eye(4).reshape(2, 2, 4), A(2, 2)), call(A(2, 6, 3) + 3.0 * np.eye(6).reshape(2, 3, 6).swapaxes(1, 2), A(2, 3), axes=(1,)))
sample(np.linalg.cond)(*over({}, {"p": 2}, {"p": -2}, {"p": "fro"}, {"p": 1}, {"p": np.inf})(W(3, 3)), call(W(3, 3, 2)), call(W(3, 2)))
sample(np.linalg.matrix_norm)(*over({}, {"ord": 1}, {"ord": -np.inf}, {"ord": 2}, {"ord": "nuc"}, {"keepdims": True})(W(3, 3, 2)))
sample(np.linalg.vector_norm)(*over({}, {"ord": 1}, {"ord": 3}, {"ord": np.inf}, {"axis": 1}, {"axis": (0, 2)}, {"axis": -1, "keepdims": True}, {"keepdims": True})(D(2, 3, 4)), call(Z(3)))

# --- statistics -------------------------------------------------------------------------------------------------------------

def N(*shape):
    """Numbers with NaN on a diagonal."""
    return np.where(B(*shape), A(*shape), np.nan)


def DN(*shape):
    """Numbers that differ, with NaN on a diagonal."""
    return np.where(B(*shape), D(*shape), np.nan)


REDUCED = [{}, {"axis": 0}, {"axis": -1}, {"axis": (0, 2)}, {"axis": (-1, 1), "keepdims": True}, {"keepdims": True}]
sample(np.nansum, np.nanprod)(*over(*REDUCED, {"initial": 2.0}, {"axis": 1, "where": B(2, 3, 4)})(N(2, 3, 4)), call(A(3)))
sample(np.nanmean, np.nanvar, np.nanstd)(*over(*REDUCED, {"where": B(3, 1)})(N(2, 3, 4)), call(A(3)))
sample(np.nanvar, np.nanstd)(*over({"ddof": 1}, {"axis": 2, "ddof": 1}, {"correction": 1})(N(2, 3, 4)))
sample(np.nanmax, np.nanmin)(*over(*REDUCED)(DN(2, 3, 4)), call(D(3)), call(DN(4), initial=0.3))
sample(np.nancumsum, np.nancumprod)(*over({}, {"axis": 0}, {"axis": -1})(N(2, 3)), call(A(3)))
sample(np.amax, np.amin, np.ptp)(*over(*REDUCED)(D(2, 3, 4)), call(D(3)))
sample(np.cumulative_sum, np.cumulative_prod)(call(A(4)), *over({"axis": 0}, {"axis": -1, "include_initial": True})(A(2, 3)), call(A(3), include_initial=True))
sample(np.median)(*over(*REDUCED)(D(2, 3, 4)), call(D(3)), call(D(4)), call(D(2, 3), 1), call(D(1)))
sample(np.nanmedian)(*over(*REDUCED)(DN(2, 3, 4)), call(D(3)), call(DN(5)))
METHODS = [{"method": m} for m in ("linear", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased", "inverted_cdf", "averaged_inverted_cdf",
                                   "closest_observation", "lower", "higher", "midpoint", "nearest")]
sample(np.quantile, np.nanquantile)(*over(*METHODS)(D(7), fixed(0.33)), *over(*REDUCED)(D(2, 3, 4), fixed(0.3)), call(D(2, 3), fixed(np.array([0.2, 0.83])), 0), call(D(5), 0.33), call(D(4), np.array([0.2, 0.45])),
                                    call(D(3, 4), fixed(np.array([[0.2, 0.4]])), axis=1, keepdims=True), call(D(5), fixed(0.0)), call(D(5), fixed(1.0)))
sample(np.percentile, np.nanpercentile)(call(D(7), fixed(33.0)), call(D(3, 4), fixed(45.0), 1), call(D(2, 4), fixed(np.array([20.0, 83.0])), axis=1), call(D(2, 4), 30, axis=1))
sample(np.nanquantile)(*over(*METHODS, {"axis": 0}, {"axis": (0, 2), "method": "hazen"}, {"axis": 1, "method": "midpoint"})(DN(3, 2, 4), fixed(0.3)), call(DN(3, 4), np.array([0.2, 0.45]), axis=1))
sample(np.average)(call(A(2, 3)), call(A(2, 3), 1), call(A(3), weights=P(3)), call(A(2, 3), 1, P(3)), call(A(2, 3), 1, P(2, 3)), call(A(2, 3), None, P(2, 3), True), call(A(2, 3), 0, P(2), True), call(Z(3), None, P(3)),
                   call(A(2, 3, 4), (2, 0), P(4, 2)), call(A(2, 3), 0, keepdims=True), call(A(2, 3), 0, P(2), keepdims=True), call(A(2, 3), returned=True), call(fixed(np.array([1, 2, 4])), None, P(3)))
sample(np.cov)(call(A(3)), call(A(3, 5)), call(A(5), A(5)), call(A(3, 5), A(2, 5)), call(A(5, 3), rowvar=False), call(A(3, 5), bias=True), call(A(3, 5), ddof=2), call(A(2, 5), aweights=P(5)),
               call(A(2, 5), fweights=np.array([1, 2, 1, 3, 1])), call(A(2, 5), None, True, False, None, np.array([1, 2, 1, 3, 1]), P(5)), call(Z(2, 5)), call(A(5, 2), A(5, 3), rowvar=False), call(A(1, 5)))
sample(np.corrcoef)(call(A(3, 5)), call(A(5), A(5)), call(A(5, 3), rowvar=False), call(A(5)))
COUNTED = np.array([0.1, 0.35, 0.9, 0.2, 1.4, 0.62])
sample(np.bincount)(call(np.array([0, 2, 2, 1]), A(4)), call([0, 3, 3], A(3), minlength=6))
sample(np.histogram)(call(fixed(COUNTED), 4, None, None, A(6)), call(fixed(COUNTED), np.array([0.0, 0.5, 1.2]), None, False, A(6)), call(COUNTED, 3), call(COUNTED, 4, None, True), call(fixed(COUNTED), 3, (0.0, 1.0), True, P(6)),
                     call(COUNTED, "auto"), call(COUNTED, np.array([0.0, 0.5, 1.5])), call(COUNTED, fixed(np.array([0.0, 0.5, 1.5])), None, True, P(6)))
sample(np.histogram_bin_edges)(call(COUNTED), call(COUNTED, 4), call(COUNTED, "sturges"), call(COUNTED, 3, (0.0, 2.0)))
sample(np.histogram2d)(call(fixed(COUNTED), fixed(COUNTED[::-1].copy()), 3, None, None, A(6)), call(COUNTED, COUNTED[::-1].copy(), [2, 3]), call(fixed(COUNTED), fixed(COUNTED[::-1].copy()), 2, ((0.0, 1.0), (0.0, 2.0)), True, P(6)))
sample(np.histogramdd)(call(np.stack([COUNTED, COUNTED[::-1]], axis=1), 2), call([fixed(COUNTED), fixed(COUNTED[::-1].copy())], [2, 3], None, None, A(6)))

# --- calculus ---------------------------------------------------------------------------------------------------------------

MODES = ("full", "same", "valid")
sample(np.convolve, np.correlate)(*(call(A(n), A(m), mode) for mode in MODES for n, m in ((5, 3), (3, 5), (5, 4), (4, 5), (2, 4), (3, 3), (1, 4))), call(Z(4), Z(3)), call(A(4), Z(2), "same"), call(A(3), Fixed(A(2))))
sample(convolve_full)(call(A(4), A(3)), call(Z(2), Z(3)))
sample(np.trapezoid)(call(A(4)), call(A(2, 4)), call(A(2, 4), None, 0.5, 0), call(A(2, 4), np.array([0.0, 0.5, 0.7, 2.0])), call(A(2, 4), A(2), axis=0), call(A(2, 4), A(2, 4)), call(A(4), dx=0.3))
sample(np.ediff1d)(call(A(4)), call(A(2, 3)), call(A(4), A(2), A(1)), call(A(3), to_end=2.0))
KNOTS = np.array([0.0, 0.5, 1.1, 2.0])
sample(np.gradient)(call(A(5)), call(A(4, 5)), call(A(4), 0.5), call(A(4), KNOTS), call(A(4, 5), axis=0), call(A(4), KNOTS, edge_order=2), call(A(4), 0.3, edge_order=2), call(A(4, 3), KNOTS, fixed(0.5)), call(A(3, 4), axis=(1, 0)),
                    call(Z(4)), call(A(2)), call(A(4, 4), fixed(0.5), fixed(2), edge_order=2))
PHASES = np.array([0.1, 2.5, 5.9, -1.0, 1.4])
sample(np.unwrap)(call(PHASES), call(np.stack([PHASES, PHASES[::-1]])), call(np.stack([PHASES, PHASES[::-1]], axis=1), axis=0), call(PHASES / 6.0, period=1.0), call(PHASES, discont=4.0))
for fn in (np.sinc, np.i0, bessel_i0):
    SAMPLES[fn] += [call(A(*shape)) for shape in [(3,), (2, 3), (0,)]] + [call(3.0 * P(4)), call(np.array([0.0, 1e-3, -1.0001]))]
sample(np.sinc)(call(Z(3)), call(A()), call(0.0), call(0.4))
sample(np.nan_to_num)(call(A(3)), call(np.array([0.5, np.nan, np.inf, -np.inf])), call(np.array([0.5, np.nan, np.inf, -np.inf]), nan=2.0, posinf=3.0, neginf=4.0), call(Z(3)), call(A()))
sample(np.real_if_close)(call(A(3)), call(Z(3)), call(Z(3), 5.0))
sample(np.angle)(call(Z(3)), call(Z(2, 3), True), call(A(3)), call(Z()))

# --- layout -----------------------------------------------------------------------------------------------------------------

sample(np.rot90)(*(call(A(2, 3), k) for k in (0, 1, 2, 3, -1)), call(A(2, 3, 4), 1, (1, 2)), call(A(2, 3, 4), 3, axes=(2, 0)))
sample(np.fliplr, np.flipud)(call(A(2, 3)), call(A(2, 3, 2)))
sample(np.flipud)(call(A(3)))
sample(np.rollaxis)(call(A(2, 3, 4), 2), call(A(2, 3, 4), 0, 3), call(A(2, 3, 4), 1, -1), call(A(2, 3, 4), -1, start=1))
sample(np.hsplit)(call(A(4), 2), call(A(2, 4), 2), call(A(2, 4), [1]))
sample(np.vsplit)(call(A(4, 2), 2), call(A(4, 2), [1, 3]))
sample(np.dsplit)(call(A(2, 2, 4), 2))
sample(np.unstack)(call(A(2, 3)), call(A(2, 3), axis=1))
sample(np.broadcast_arrays)(call(A(3), A(2, 1)), call(A(), A(2)), call(A(3)))
sample(np.meshgrid)(call(A(3), A(2)), call(A(3), A(2), indexing="ij"), call(A(3), A(2), A(2), sparse=True), call(A(3), A(), copy=False), call(A(3)))
sample(np.ix_)(call(A(3), A(2)))
sample(np.lib.stride_tricks.sliding_window_view)(call(A(5), 3), call(A(3, 4), (2, 3)), call(A(3, 5), 2, axis=1), call(A(3, 5), (2, 2), (1, 0)))
sample(np.block)(call([A(2), A(3)]), call([[A(2, 2), A(2, 3)], [A(1, 2), A(1, 3)]]), call([A(), A(2)]), call(A(3)), call([[A(2)], [A(2)]]), call([[A(1, 2), A(1, 1)], [A(3)]]))
sample(np.append)(call(A(3), A(2)), call(A(2, 3), A()), call(A(2, 3), A(1, 3), 0), call(A(2, 3), A(2, 2), axis=1), call(Fixed([1.0, 2.0]), A(2)))
sample(np.insert)(call(A(4), 1, A()), call(A(4), [1, 3], A(2)), call(A(2, 3), 1, A(2), 1), call(A(2, 3), 1, A(3), axis=0), call(A(2, 3), [0, 2], A(2, 2), axis=1), call(A(3), slice(0, 2), A(2)), call(A(2, 3), 2, 5.0))
sample(np.delete)(call(A(4), 1), call(A(4), [0, 2]), call(A(2, 3), 1, 1), call(A(2, 3), slice(0, 2), axis=1), call(A(2, 3), 4), call(A(4), np.array([True, False, False, True])))
sample(np.resize)(call(A(3), (2, 2)), call(A(3), 7), call(A(2, 3), (2, 2)), call(A(0), (2,)))
sample(np.trim_zeros)(call(A(3)), call(A(4), "f"))
sample(np.diagflat)(call(A(3)), call(A(2, 2), 1), call(A(2), k=-1))
sample(np.compress)(call(np.array([True, False, True]), A(3)), call([1, 0, 1], A(2, 3), 1), call([True, False], A(2, 3), axis=0), call([False, True], A(2, 3)))
sample(np.extract)(call(np.array([True, False, True]), A(3)), call(B(2, 3), A(2, 3)))
PICK = np.array([0, 2, 1])
sample(np.choose)(call(PICK, [A(3), A(3), A(3)]), call(PICK, [A(), A(3), A(2, 1)]), call(PICK + 3, [A(3), A(3), A(3)], mode="wrap"), call(PICK - 1, [A(3), A(3)], mode="clip"), call(PICK, A(3, 3)))
sample(np.select)(call([B(3), ~B(3)], [A(3), A(3)]), call([B(2, 3)], [A(3)], A()), call([B(3), B(3)], [A(3), A()], 2.0))
TWICE, SQUARE = lambda x: 2.0 * x, lambda x: x * x
sample(np.piecewise)(call(A(3), [np.array([True, False, False]), np.array([False, True, False])], [TWICE, SQUARE]), call(A(3), [np.array([True, False, True])], [SQUARE, 0.5]), call(A(2, 3), [B(2, 3)], [np.exp, np.sin]),
                     call(A(3), [np.array([True, True, False])], [lambda x, k: k * x, 3.0], 2.5), call(np.asarray(A()), [True], [SQUARE]))
sample(np.partition)(call(D(5), 2), call(D(2, 5), [1, 3], 1), call(D(4, 2), 2, axis=0), call(D(2, 3), 2, None))
sample(np.sort_complex)(call(D(4)), call(Z(4)))
sample(np.apply_along_axis)(call(np.sum, 0, A(2, 3)), call(np.cumsum, 1, A(2, 3)), call(np.diag, -1, A(2, 3)), call(lambda x: x[0] * x, 1, A(2, 3, 2)), call(np.outer, 0, A(2, 3), np.array([1.0, 2.0])))
sample(np.apply_over_axes)(call(np.sum, A(2, 3, 4), [0, 2]), call(np.cumsum, A(2, 3), (0, 1)), call(np.mean, A(2, 3), 1))
ENDS = [{}, {"num": 4}, {"num": 3, "endpoint": False}, {"num": 1}, {"num": 0}]
sample(np.linspace, np.logspace, np.geomspace)(*(Sample((P(), P()), options) for options in ENDS), call(P(3), P(), 3), call(P(3), P(2, 3), num=2, axis=-1), call(fixed(1.0), P(), 3), call(P(), 2, 3))
sample(np.linspace)(call(A(), A(), 4, retstep=True), call(A(3), A(3), 3, False, True), call(Z(), A(), 3))
sample(np.logspace)(call(A(), A(), 3, base=P()), call(A(), A(), 3, True, 2.0))
sample(np.geomspace)(call(-P(), -P(), 3), call(Z(), Z(), 3))
sample(np.astype)(Sample((A(3), np.complex128)), Sample((A(3), np.float64), {"copy": False}))
sample(np._core.umath.clip)(call(D(4), -0.28, 0.22), call(D(2, 3), -0.28, np.array([0.02, 0.12, 0.11])))
sample(np._core.umath._ones_like)(call(A(3)))

# --- sets -------------------------------------------------------------------------------------------------------------------

sample(np.unique)(call(D(4)), call(D(2, 3)), call(D(4), True), call(D(4), return_inverse=True, return_counts=True), call(D(3, 2), axis=0))
sample(np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values)(call(D(4)), call(D(2, 3)))
sample(np.union1d, np.setxor1d)(call(D(4), D(3) + 0.033))
sample(np.setdiff1d, np.intersect1d)(call(D(4), fixed(np.array([9.0]))), call(D(4), D(3) + 0.033))

# --- polynomials ------------------------------------------------------------------------------------------------------------

sample(np.poly)(call(A(3)), call(A(1)), call(spread(3, 3)), call(Z(3)), call(Z(2)))
sample(np.polyval)(call(A(4), A()), call(A(4), A(3)), call(A(3), A(2, 2)), call(Fixed([1.0, 2.0, 3.0]), A(3)), call(A(3), fixed(2.0)), call(Z(3), A(3)), call(A(1), A(3)))
sample(np.polyadd, np.polysub, np.polymul)(call(A(3), A(3)), call(A(2), A(4)), call(A(3), fixed(np.array([1.0, 2.0]))), call(A(3), A()), call(Z(3), A(2)))
sample(np.polyder)(call(A(4)), call(A(4), 2), call(A(4), m=0), call(A(2), 3))
sample(np.polyint)(call(A(3)), call(A(3), 2), call(A(3), 1, A()), call(A(3), 2, A(2)), call(A(3), m=0))
sample(np.polydiv)(call(np.array([1.0, -2.5, 0.5, 3.0, 1.5]), np.array([2.0, 0.5, -1.0])), call(A(3), 1.0 + P(3)), call(A(2), 1.0 + P(3)), call(np.array([1.0, 3.0, 0.5]), np.array([-0.5, 1.0])))
sample(np.polyfit)(call(np.array([0.0, 0.5, 1.0, 1.7, 2.2]), A(5), 2), call(np.array([0.0, 0.5, 1.0, 1.7, 2.2]), A(5, 2), 1), call(np.array([0.0, 0.5, 1.0, 1.7, 2.2]), A(5), 1, w=np.array([1.0, 2.0, 1.0, 0.5, 1.0])),
                   call(np.array([0.0, 0.5, 1.0, 1.7, 2.2]), A(5), 1, cov=True), call(np.array([0.0, 0.5, 1.0, 1.7, 2.2]), A(5), 1, cov="unscaled"), call(np.array([0.0, 0.5, 1.0]), A(3), 2))
sample(np.roots)(call(np.poly([1.0, -1.0, 0.2])), call(np.array([2.0, 1.0, 3.0])), call(np.array([1.0 + 0.5j, 2.0, 5.0])), call(np.array([3.0, 1.5])))
sample(np.vander)(call(A(3)), call(A(3), 2), call(A(2), 4, True), call(A(3), increasing=True), call(A(3), 1))

# --- complex where real numbers end -----------------------------------------------------------------------------------------

sample(scimath.sqrt, scimath.log, scimath.log2, scimath.log10)(call(P(3)), call(A(3)), call(P()), call(-P(3)), call(Z(3)))
sample(scimath.power)(call(P(3), fixed(0.5)), call(A(3), fixed(0.5)), call(A(3), 2), call(P(3), A(3)), call(-P(3), A()))
sample(scimath.arccos, scimath.arcsin, scimath.arctanh)(call(A(3)), call(G(3)), call(0.5 * Z(3)), call(A()))
sample(scimath.logn)(call(fixed(2.0), P(3)), call(fixed(2.0), -P(3)), call(G(), P()))

# --- without derivative -----------------------------------------------------------------------------------------------------

for fn in (np.argwhere, np.flatnonzero, np.isposinf, np.isneginf, np.common_type, np.min_scalar_type, np.fix, np.around, np.nanargmax, np.nanargmin):
    CONSTANTS[fn] = [call(A(2, 3)), call(A(3))]
for fn in (np.diag_indices_from, np.tril_indices_from, np.triu_indices_from, np.linalg.matrix_rank):
    CONSTANTS[fn] = [call(A(3, 3))]
CONSTANTS[np.array_equiv] = [call(A(2, 3), A(3)), call(A(3), Fixed(np.zeros(3)))]
CONSTANTS[np.digitize] = [call(P(4), fixed(np.array([0.5, 1.0]))), call(fixed(P(4)), np.array([0.5, 1.0]))]
CONSTANTS[np.lexsort] = [call([A(3), A(3)])]
for fn in (np.isin,):
    CONSTANTS[fn] = [call(A(3), A(2)), call(A(3), Fixed(A(2)))]
CONSTANTS[evaluate] = [call(np.sin, A(3)), call(np.argsort, A(2, 3), axis=0)]
CONSTANTS[leader] = [call(np.maximum, D(5), 0), call(np.minimum, D(2, 5), 1)]
CONSTANTS[close_pairs] = [call(A(3)), call(Z(2, 3))]
CONSTANTS[warn_close] = [call("f", A(3) * 0.0)]
# fmt: on

for table in (SAMPLES, CONSTANTS):
    for fn in [fn for fn in table if type(fn) is Absent]:  # see test_registry
        del table[fn]
