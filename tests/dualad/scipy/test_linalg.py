"""dualad.scipy.linalg beyond samples of real numbers: complex matrices, equations of Riccati, factors that go on, bad calls."""

import numpy as np
import pytest
from scipy_calls import check_refused

import dualad
from checkpoint import grad, vjp

pytest.importorskip("scipy")
from scipy import linalg as sl

from dualad.scipy import linalg as dl

RNG = np.random.default_rng(3)
A = RNG.standard_normal((3, 3)) + 1j * RNG.standard_normal((3, 3)) + 2.0 * np.eye(3)
Q = RNG.standard_normal((3, 3)) + 1j * RNG.standard_normal((3, 3))
H = A @ A.conj().T + np.eye(3)
BAND = RNG.standard_normal((3, 5)) + 1j * RNG.standard_normal((3, 5)) + np.array([[0.0], [4.0], [0.0]])
B = RNG.standard_normal((5, 2)) + 1j * RNG.standard_normal((5, 2))
COMPLEX = {
    "solve_banded": [(lambda f, ab: f((1, 1), ab, B), BAND), (lambda f, b: f((1, 1), BAND, b), B)],
    "solveh_banded": [(lambda f, ab: f(ab, B[:3], lower=True), np.stack([np.diag(H).real + 9.0, [*np.diag(H, 1), 0.0]]))],
    "solve_sylvester": [(lambda f, a: f(a, H, Q), A), (lambda f, q: f(A, H, q), Q)],
    "solve_continuous_lyapunov": [(lambda f, a: f(a, Q), A)],
    "solve_discrete_lyapunov": [(lambda f, a: f(a, Q), 0.2 * A), (lambda f, q: f(0.2 * A, q), Q)],
    "solve_toeplitz": [(lambda f, c: f((c + 9.0 * np.eye(5)[0], B[:, 1]), B), B[:, 0])],
    "solve_circulant": [(lambda f, c: f(c, B), B[:, 0] + 5.0 * np.eye(5)[0])],
    "solve": [(lambda f, a, kind=kind: f(a, Q, assume_a=kind), H) for kind in ("gen", "sym", "her", "pos")],
    "solve_triangular": [(lambda f, a, trans=trans: f(a, Q, trans), A) for trans in (0, 1, 2, "C")],
    "cholesky": [(lambda f, a, lower=lower: f(a, lower), H) for lower in (True, False)],
    "cho_solve": [(lambda f, c, lower=lower: f((c, lower), Q), sl.cholesky(H, lower=lower)) for lower in (True, False)],
    "lu_factor": [(lambda f, a: f(a)[0], A)],
    "lu_solve": [(lambda f, b: f(sl.lu_factor(A), b, 2), Q)],
    "logm": [(lambda f, a: f(a), H)],
    "svdvals": [(lambda f, a: f(a), A)],
    "eigh": [(lambda f, a: f(a, driver="ev")[0], H), (lambda f, b: np.abs(f(H, b, driver="gv")[1]), H + np.eye(3))],
    "qr": [(lambda f, a: f(a)[1], A)],
    "lu": [(lambda f, a: f(a)[2], A)],
}


@pytest.mark.slow
def test_complex_matrices_in_both_modes():
    """Tangents by differences of SciPy's own, cotangents by the pairing Re(g * t)."""
    for name, calls in COMPLEX.items():
        ours, scipys = getattr(dl, name), getattr(sl, name)
        for call, x in calls:
            t = np.cos(np.arange(x.size).reshape(x.shape)) + 1j * np.sin(1.0 + np.arange(x.size).reshape(x.shape))
            value, tangent = dualad.jvp(lambda x: call(ours, x), (x,), (t,))
            assert value.tobytes() == call(scipys, x).tobytes(), name
            step = (call(scipys, x + 1e-6 * t) - call(scipys, x - 1e-6 * t)) / 2e-6
            np.testing.assert_allclose(tangent, step, rtol=1e-5, atol=1e-6, err_msg=name)
            g = np.sin(1.0 + np.arange(value.size).reshape(value.shape)) * (1.0 + (0.5j if np.iscomplexobj(value) else 0.0))
            (back,) = vjp(lambda x: call(ours, x), x)[1](g)
            np.testing.assert_allclose(np.sum(back * t).real, np.sum(g * tangent).real, rtol=1e-8, err_msg=name)


def test_equations_of_riccati_by_symmetric_weights():
    a, b = A.real, Q.real[:, :2]
    q, r, t = H.real, np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([[1.0, -0.5, 0.2], [-0.5, 0.4, 0.1], [0.2, 0.1, -0.3]])
    for name in ("solve_continuous_are", "solve_discrete_are"):
        ours, scipys = getattr(dl, name), getattr(sl, name)
        for f, x, d in ((lambda s, q: s(a, b, q, r), q, t), (lambda s, r: s(a, b, q, r), r, t[:2, :2])):
            tangent = dualad.jvp(lambda x, f=f, s=ours: f(s, x), (x,), (d,))[1]
            np.testing.assert_allclose(tangent, (f(scipys, x + 1e-5 * d) - f(scipys, x - 1e-5 * d)) / 2e-5, rtol=1e-6, atol=1e-8)
            back = grad(lambda x, f=f, s=ours: np.sum(t * f(s, x)))(x)
            np.testing.assert_allclose(np.sum(back * d), np.sum(t * tangent), rtol=1e-9)


def test_both_matrices_of_a_pencil_in_one_call():
    whole = lambda f, a: np.abs(f(a, np.eye(3) + a @ a, driver="gv")[1])
    t = np.cos(np.arange(9.0).reshape(3, 3))
    tangent = dualad.jvp(lambda a: whole(dl.eigh, a), (H.real,), (t + t.T,))[1]
    step = (whole(sl.eigh, H.real + 1e-6 * (t + t.T)) - whole(sl.eigh, H.real - 1e-6 * (t + t.T))) / 2e-6
    np.testing.assert_allclose(tangent, step, rtol=1e-5, atol=1e-6)


def test_the_pseudoinverse_has_the_rank_that_scipy_finds():
    a, t = np.diag([2.0, 1.0, 5e-8]).astype(np.float32), np.diag([1.0, 0.5, 0.0]).astype(np.float32)
    for options, wanted in (({}, np.diag([-0.25, -0.5, 0.0])), ({"rtol": 0.6}, np.diag([-0.25, 0.0, 0.0]))):
        value, tangent = dualad.jvp(lambda a, options=options: dl.pinv(a, **options), (a,), (t,))
        assert value.tobytes() == sl.pinv(a, **options).tobytes()
        np.testing.assert_allclose(tangent, wanted, atol=1e-6)


def test_factors_go_on():
    a, b = A.real, Q.real
    whole = lambda a: np.sum(dl.lu_solve(dl.lu_factor(a), b) ** 2)
    np.testing.assert_allclose(grad(whole)(a), grad(lambda a: np.sum(np.linalg.solve(a, b) ** 2))(a), rtol=1e-9)
    again = lambda a: np.sum(np.cos(sum_of_parts(dl.lu(a))))
    np.testing.assert_allclose(grad(again)(a), -np.sin(a), rtol=1e-9)
    bent = dualad.hessian(whole)(a)
    np.testing.assert_allclose(bent, dualad.hessian(lambda a: np.sum(np.linalg.solve(a, b) ** 2))(a), rtol=1e-7)
    before = np.asfortranarray(a)
    kept = before.copy()
    grad(lambda a: np.sum(dl.lu_factor(a, True)[0]) + np.sum(dl.solve(a, b, overwrite_a=True)))(before)
    assert before.tobytes() == kept.tobytes(), "what is traced is not overwritten"


def sum_of_parts(parts):
    p, lower, upper = parts
    return p @ lower @ upper


def test_long_bands_take_no_square_matrix():
    n = 20_000
    band = np.stack([np.full(n, 1.0), np.full(n, -4.0), np.full(n, 1.0)])
    slope = grad(lambda b: np.sum(dl.solve_banded((1, 1), band * b[0], b)))(np.ones(n))
    np.testing.assert_allclose(slope[n // 2], -0.5, rtol=1e-12)


def test_they_compile():
    pytest.importorskip("llvmlite")
    loss = lambda a: np.sum(dl.solve_banded((1, 1), BAND.real + a[0, 0], a.ravel()[:5]) ** 2) + np.sum(np.cos(dl.lu(a)[0] @ dl.lu(a)[1]))
    np.testing.assert_allclose(dualad.jit(grad(loss))(A.real), grad(loss)(A.real), rtol=1e-10)


def test_what_has_no_derivative_is_said():
    cases = [
        (lambda a: dl.qr(a, mode="raw"), "scipy.linalg.qr has no derivative with mode='raw'"),
        (lambda a: dl.lu_factor(a[:2]), r"of a square matrix, not of shape \(2, 3\)"),
        (lambda a: dl.eigh(a, subset_by_value=[0, 1]), "scipy.linalg.eigh has no derivative with these arguments: .*subset_by_value"),
        (lambda a: dl.solve_continuous_are(a, A, H, H), "solve_continuous_are has no derivative of complex matrices"),
        (lambda a: dl.solve_sylvester(a, a, Q), "solve_sylvester has no derivative of real matrices with complex arrays"),
        (lambda a: dl.solve_continuous_lyapunov(a, Q), "solve_continuous_lyapunov has no derivative of real matrices with complex"),
        (lambda a: dl.solve_discrete_lyapunov(a[0, 0] * np.ones((10, 10)), 1j * np.eye(10)), "lyapunov has no derivative of real"),
        (lambda a: dl.solve_discrete_lyapunov(a[0, 0] * np.ones((3, 3)), 1j * np.eye(3), "bilinear"), "lyapunov has no derivative of real"),
        (lambda a: dl.orthogonal_procrustes(a, Q), "orthogonal_procrustes has no derivative of complex matrices"),
        (lambda a: dl.null_space(a), "scipy.linalg.null_space has no derivative here"),
        (lambda a: dl.eig(a, left=True), "scipy.linalg.eig has no derivative with these arguments: .*left"),
    ]
    check_refused(A.real, cases)
