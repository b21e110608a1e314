"""Sparse Jacobians and Hessians in forward mode: equal to the dense ones, eager and compiled, for every kind of argument."""

import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import checkpoint
import dualad
from dualad import coloring, hessian, jacobian, jit, sparsity, value_and_jacobian

sparse = pytest.importorskip("scipy.sparse")
U = np.sin(np.arange(12.0))


def burgers(u):
    h = 1.0 / len(u)
    out = np.zeros_like(u)
    out[1:-1] = u[1:-1] * (u[2:] - u[:-2]) / (2 * h) - 0.01 * (u[2:] - 2 * u[1:-1] + u[:-2]) / h**2
    out[0], out[-1] = u[0], u[-1]
    return out


def energy(u):
    return np.sum(np.cos(u[1:] * u[:-1])) + u[0] ** 3


hessians = pytest.mark.parametrize("hessian", [hessian, checkpoint.hessian], ids=["over forward", "over reverse"])


@pytest.fixture(params=["eager", "compiled"])
def made(request):
    return (lambda f: f) if request.param == "eager" else partial(jit, backend="numpy")


@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_jacobians_are_the_dense_ones(made, chunk):
    dense, f = jacobian(burgers)(U), made(burgers)
    pattern = sparsity(f, U)
    for given in ("auto", pattern, pattern.toarray(), coloring(pattern), coloring(pattern.tocsc(), order="largest_first")):
        jac = jacobian(f, chunk=chunk, sparsity=given)
        for _ in range(2):
            found = jac(U)
            assert isinstance(found, sparse.csr_array) and found.has_canonical_format and found.nnz == pattern.nnz
            np.testing.assert_allclose(found.toarray(), dense, rtol=1e-13, atol=1e-13)
        value, found = value_and_jacobian(f, chunk=chunk, sparsity=given)(U)
        np.testing.assert_allclose(value, burgers(U), rtol=1e-13)
        np.testing.assert_allclose(found.toarray(), dense, rtol=1e-13, atol=1e-13)


def test_the_value_is_what_f_returns():
    for f in (lambda x: np.sum(x), lambda x: (np.sum(x), x[:2]), lambda x: np.ones(3), burgers):
        value, _ = value_and_jacobian(f, sparsity="auto")(U)
        expected, _ = value_and_jacobian(f)(U)
        assert type(value) is type(expected)
        for a, b in (
            zip(np.atleast_1d(value), np.atleast_1d(expected), strict=True)
            if not isinstance(value, tuple)
            else zip(value, expected, strict=True)
        ):
            np.testing.assert_array_equal(a, b)
            assert type(a) is type(b)


def test_three_colours_take_one_evaluation():
    calls = []

    def f(u):
        calls.append(u)
        return burgers(u)

    colors = coloring(sparsity(f, U))
    calls.clear()
    jacobian(f, sparsity=colors)(U)
    assert colors.colors == 3 and len(calls) == 1
    n = 100_000
    colors = coloring(sparsity(f, np.ones(n)))
    calls.clear()
    jacobian(f, sparsity=colors)(np.ones(n))
    assert len(calls) == 1


def test_other_arguments_trees_dtypes_and_aux(made):
    def f(p, scale, n=2):
        return {"a": p["x"][1:] * p["y"] * scale, "b": np.sum(p["x"] ** n), "c": np.float32(1.0)}, {"scale": scale}

    x = np.array([1.0, 2.0, 3.0], np.float32)
    dense = [[0.0, 6.0, 0.0, 4.0], [0.0, 0.0, 6.0, 6.0], [2.0, 4.0, 6.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    waves = lambda x: np.exp(1j * x) * x[0]
    for verb, mode in ((jacobian, "forward"), (checkpoint.jacobian, "reverse"), (checkpoint.jacobian, "both")):
        for dtype in (np.float32, np.float64):
            args = {"x": x.astype(dtype), "y": dtype(3.0)}, 2.0
            colors = coloring(sparsity(lambda *args: f(*args)[0], *args), mode)
            for given in (colors, "auto"):
                jac, aux = verb(made(f), has_aux=True, sparsity=given, verify=True)(*args)
                np.testing.assert_allclose(jac.toarray(), dense, rtol=1e-6)
                assert jac.dtype == dtype and aux == {"scale": 2.0}
        found = verb(made(waves), sparsity=coloring(sparsity(waves, U), mode))(U)
        np.testing.assert_allclose(found.toarray(), jacobian(waves)(U), rtol=1e-12)
    found = jacobian(made(lambda s, x: s * x), argnums=(1, 0), sparsity="auto")(2.0, U[:3])
    np.testing.assert_allclose(found.toarray(), np.column_stack([2.0 * np.eye(3), U[:3]]))
    assert jacobian(made(lambda x: x**2), sparsity="auto")(3.0).toarray().tolist() == [[6.0]]
    assert jacobian(made(lambda x: x**2), sparsity="auto")(np.arange(3)).diagonal().tolist() == [0.0, 2.0, 4.0]
    z = np.array([1.0 + 2.0j, 3.0])
    found = jacobian(made(lambda z: z**2), holomorphic=True, sparsity="auto")(z)
    np.testing.assert_allclose(found.toarray(), np.diag(2.0 * z))
    assert jacobian(made(lambda x: np.ones(2)), sparsity="auto")(U).nnz == 0


def test_auto_finds_a_pattern_for_each_kind_of_arguments_and_again_where_what_is_read_changes():
    mask = np.array([1.0, 0.0, 1.0])
    jac = jacobian(lambda x: x * mask + x[::-1] * 0.0, sparsity="auto")
    assert jac(np.ones(3)).nnz == 2
    mask[1] = 2.0
    assert jac(np.ones(3)).toarray().tolist() == np.diag([1.0, 2.0, 1.0]).tolist()
    picked = jacobian(lambda x, i: x[i], sparsity="auto")
    for i in ([0, 2], [1, 1]):
        assert picked(np.ones(3), np.array(i)).indices.tolist() == i
    configured = jacobian(lambda x, options: x[:: options.step], sparsity="auto")
    assert configured(np.ones(4), SimpleNamespace(step=2)).nnz == 2 and configured(np.ones(4), SimpleNamespace(step=1)).nnz == 4
    both = jacobian(lambda x: np.cumsum(x), sparsity="auto")
    assert [both(np.ones(n)).nnz for n in (2, 3, 2)] == [3, 6, 3]


@hessians
def test_hessians_are_the_dense_ones(made, hessian):
    dense, f = dualad.hessian(energy)(U), made(energy)
    pattern = sparsity(energy, U, order=2)
    for given in ("auto", pattern, coloring(pattern, "symmetric"), coloring(pattern)):
        found = hessian(f, sparsity=given, verify=True)(U)
        np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-12)
    arrow = lambda x, a: np.sum(x[0] * a * x) + np.sum(x**3)
    pattern = sparsity(arrow, U, 2.0, order=2)
    assert coloring(pattern, "symmetric").colors < coloring(pattern).colors
    found = hessian(made(arrow), sparsity="auto")(U, 2.0)
    np.testing.assert_allclose(found.toarray(), hessian(arrow)(U, 2.0), atol=1e-12)
    found = hessian(made(lambda p: p["a"] ** 2 * np.sum(p["b"])), sparsity="auto")({"a": 2.0, "b": np.ones(2)})
    np.testing.assert_allclose(found.toarray(), [[4.0, 4.0, 4.0], [4.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    assert hessian(made(lambda x: np.sum(x)), sparsity="auto")(U).nnz == 0


def test_static_arguments_and_methods_of_compiled_functions():
    class Scheme:
        def __init__(self):
            self.factor = 3.0

        @partial(jit, static_argnames="n", backend="numpy")
        def step(self, x, n, power=2):
            for _ in range(n):
                x = self.factor * x[1:] * x[:-1]
            return x**power

    scheme = Scheme()
    f = scheme.step
    jac = jacobian(f, sparsity=coloring(sparsity(f, U, 1)))
    first = jac(U, 1)
    scheme.factor = 6.0
    np.testing.assert_allclose(jac(U, 1).data, 4.0 * first.data, err_msg="what f reads has changed")
    for n in (1, 2):
        for given in ("auto", coloring(sparsity(f, U, n))):
            for args, kwargs in (((U, n), {}), ((U,), {"n": n}), ((U, n, 3), {})):
                found = jacobian(f, sparsity=given, verify=True)(*args, **kwargs)
                np.testing.assert_allclose(found.toarray(), jacobian(f)(*args, **kwargs), rtol=1e-12)


def test_compiled_entries_come_from_one_program(monkeypatch):
    pytest.importorskip("llvmlite")
    f = jit(burgers, verify=False)
    jac = jacobian(f, sparsity=coloring(sparsity(burgers, U)))
    jac(U)
    monkeypatch.setattr(sys.modules["dualad.jit.jit"], "trace", None)
    monkeypatch.setattr(dualad.sparse.compressed, "push_colors", None)
    np.testing.assert_allclose(jac(U[::-1].copy()).toarray(), jacobian(burgers)(U[::-1]), atol=1e-12)


def test_a_local_pattern_serves_a_function_that_branches():
    f = lambda x: x[1:] * x[:-1] if x[0] > 0.0 else x[1:] + 1.0
    x = np.array([1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="local=True"):
        jacobian(f, sparsity="auto")(x)
    found = jacobian(f, sparsity=sparsity(f, x, local=True), verify=True)(x)
    np.testing.assert_array_equal(found.toarray(), jacobian(f)(x))


# --- bad input ------------------------------------------------------------------------------------------------------------------


@hessians
def test_a_missing_entry_is_named(made, hessian):
    pattern = sparsity(burgers, U).toarray()
    jacobian(made(burgers), sparsity=pattern, verify=True)(U)
    for row, column in ((3, 4), (7, 7), (0, 0)):
        short = pattern.copy()
        short[row, column] = False
        value = jacobian(burgers)(U)[row, column]
        with pytest.raises(ValueError, match=rf"misses entry \({row}, {column}\): .* is {value:.6g} here"):
            jacobian(made(burgers), sparsity=short, verify=True)(U)
        for mode in ("reverse", "both"):
            with pytest.raises(ValueError, match=rf"misses entry \({row}, {column}\)"):
                checkpoint.jacobian(burgers, sparsity=coloring(short, mode), verify=True)(U)
    short = sparsity(energy, U, order=2).toarray()
    short[4, 5] = short[5, 4] = False
    with pytest.raises(ValueError, match=r"hessian: the pattern misses entry \((4, 5|5, 4)\)"):
        hessian(made(energy), sparsity=short, verify=True)(U)


def test_patterns_of_other_functions_are_refused(made):
    f, pattern = made(burgers), sparsity(burgers, U)
    for wrong, message in (
        (pattern[:, :-1], "the arguments have 12 elements, the pattern 11 columns"),
        (pattern[:-1], "f returns 12 numbers, the pattern has 11 rows"),
    ):
        for given in (wrong, coloring(wrong)):
            with pytest.raises(ValueError, match=message):
                jacobian(f, sparsity=given)(U)
        for mode in ("reverse", "both"):
            with pytest.raises(ValueError, match=message):
                checkpoint.jacobian(f, sparsity=coloring(wrong, mode))(U)
    with pytest.raises(ValueError, match="the arguments have 12 elements, the pattern 11 columns"):
        checkpoint.hessian(energy, sparsity=np.eye(11))(U)
    for mode in ("reverse", "both"):
        with pytest.raises(ValueError, match=f"is for mode '{mode}'.*checkpoint.jacobian"):
            jacobian(f, sparsity=coloring(pattern, mode))
    with pytest.raises(ValueError, match="is for mode 'reverse': give one of a symmetric pattern"):
        hessian(energy, sparsity=coloring(pattern, "reverse"))
    with pytest.raises(ValueError, match="not symmetric"):
        hessian(energy, sparsity=np.triu(np.ones((12, 12))))
    with pytest.raises(ValueError, match='sparsity is True: give "auto"'):
        jacobian(np.sin, sparsity=True)
    with pytest.raises(ValueError, match="sparsity is 'dense': give"):
        jacobian(f, sparsity="dense")
    with pytest.raises(TypeError, match="the pattern is dict"):
        jacobian(f, sparsity={})


def test_functions_that_are_not_deterministic_are_refused():
    rng = np.random.default_rng(0)
    f = lambda x: x * rng.random()
    with pytest.raises(TypeError, match="two traces"):
        jacobian(f, sparsity="auto")(U)
    with pytest.raises(ValueError, match="not deterministic"):
        jacobian(f, sparsity=np.eye(12), verify=True)(U)


def test_other_wrong_calls():
    for package in (dualad, checkpoint):
        with pytest.raises(ValueError, match="jacobian: verify=True compares a sparse"):
            package.jacobian(burgers, verify=True)
        with pytest.raises(ValueError, match="hessian: verify=True compares a sparse"):
            package.hessian(energy, verify=True)
        with pytest.raises(TypeError, match="is complex"):
            package.jacobian(np.exp, sparsity="auto")(U + 1j)
    with pytest.raises(TypeError, match="hessian: f returns"):
        hessian(burgers, sparsity=np.eye(12))(U)
    with pytest.raises(TypeError, match=r"f branches.*checkpoint.hessian"):
        hessian(lambda x: np.sum(x) if x[0] > 0 else x[1], sparsity=np.eye(12))(U)
    pattern = np.eye(12)
    with pytest.raises(TypeError, match="holds plain numbers only"):
        jacobian(lambda x: jacobian(lambda y: y * x, sparsity=pattern)(U).sum())(U)
    for outer in (jacobian, jit):
        with pytest.raises(
            TypeError, match=r"jacobian: f is being differentiated or compiled by an outer call, .* leave out sparsity= there"
        ):
            outer(lambda x: jacobian(np.sin, sparsity="auto")(x).sum())(U)


# --- linear operators -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jacobian", [jacobian, checkpoint.jacobian], ids=["forward", "reverse"])
def test_linear_operators(made, jacobian):
    f = made(lambda p, s: (p["x"][1:] * p["y"] * s, np.sum(p["x"]) * np.ones((2, 2))))
    args = {"x": np.arange(1.0, 4.0), "y": 2.0}, 3.0
    operator = jacobian(f).linear_operator(*args)
    dense = np.vstack([[0.0, 6.0, 0.0, 6.0], [0.0, 0.0, 6.0, 9.0], np.tile([1.0, 1.0, 1.0, 0.0], (4, 1))])
    assert operator.shape == (6, 4) and operator.dtype == float
    np.testing.assert_allclose(operator @ np.eye(4), dense)
    np.testing.assert_allclose(operator.T @ np.eye(6), dense.T)
    np.testing.assert_allclose(operator.rmatvec(np.ones(6)), dense.sum(axis=0))
    np.testing.assert_allclose(jacobian(f, argnums=1).linear_operator(*args) @ [1.0], dense[:, 3] * 2.0 / 3.0 * np.r_[1, 1, 0, 0, 0, 0])


def test_the_transpose_of_what_cannot_be_traced_names_the_way_out():
    operator = jacobian(lambda x: x if x[0] > 0 else 2.0 * x).linear_operator(U)
    np.testing.assert_allclose(operator @ U, 2.0 * U)
    with pytest.raises(TypeError, match=r"f branches.*checkpoint.jacobian\(f\).linear_operator"):
        operator.rmatvec(U)


@pytest.mark.parametrize("jacobian", [jacobian, checkpoint.jacobian], ids=["forward", "reverse"])
def test_linear_operators_of_complex_functions(jacobian):
    z = np.array([0.3 + 1.0j, 2.0 - 0.5j])
    f = lambda z: np.stack([z[0] * z[1], np.exp(z[0]), z[1] ** 2])
    dense = jacobian(f, holomorphic=True)(z)
    operator = jacobian(f, holomorphic=True).linear_operator(z)
    np.testing.assert_allclose(operator @ z, dense @ z)
    np.testing.assert_allclose(operator.rmatvec(dense[:, 0]), dense.conj().T @ dense[:, 0])
    assert jacobian(lambda x: (x**2, "aux"), has_aux=True).linear_operator(np.ones(2)).matvec(np.ones(2)).tolist() == [2.0, 2.0]
    for g, x in ((f, z), (lambda x: x * 1j, z.real), (np.abs, z)):
        with pytest.raises(TypeError, match="linear_operator: f is complex"):
            jacobian(g, holomorphic=g is not f).linear_operator(x)
