"""A row is the only home of a function: no table of functions stands outside `rules/`, and one row serves every interpreter."""

import ast
import importlib.util
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import dualad
from checkpoint import grad, hvp
from dualad import gradient, hessian, jacobian, jit, jvp, sparsity
from dualad.rules.kinds import ROWS


def tables():
    """Return, for each container with functions of the table in it, the names that it has in modules outside `rules/`."""
    found: dict[int, list[tuple[str, str]]] = {}
    for info in pkgutil.walk_packages(dualad.__path__, "dualad."):
        if info.name.startswith("dualad.rules") or info.name == "dualad.__main__":
            continue
        if info.name == "dualad.dask.calls" and importlib.util.find_spec("dask") is None:
            continue
        for name, x in vars(importlib.import_module(info.name)).items():
            if x is not ROWS and isinstance(x, dict | set | frozenset | list | tuple) and not name.startswith("__") and holds_functions(x):
                found.setdefault(id(x), []).append((info.name, name))
    return list(found.values())


def holds_functions(container):
    parts = [part for item in container for part in (item if type(item) is tuple else (item,))]
    return any(callable(part) and type(part).__hash__ is not None and part in ROWS for part in parts)


def test_no_table_of_functions_stands_outside_of_the_rules():
    pytest.importorskip("llvmlite", reason="the extra `jit` is not installed: some of the files cannot be imported")
    pytest.importorskip("dask.array", reason="the extra `distributed` is not installed: some of the files cannot be imported")
    assert not tables(), "say it in the row of each function (dualad/rules/rows.py)"


@pytest.mark.parametrize("room", ["graph", "loops", "ir", "codegen", "jit"])
def test_the_compiler_names_no_function_of_numpy_to_decide(room):
    found = []
    for path in Path(dualad.__file__).with_name(room).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for part in ast.walk(node) if isinstance(node, ast.Compare) else ():
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "np":
                    fn = getattr(np, part.attr)
                    found += [f"{path.name}:{part.lineno}: {ast.unparse(node)}"] * (fn in ROWS and part in [node.left, *node.comparators])
    assert not found, "say it in the row of the function (dualad/rules/rows.py)"


def test_the_forms_that_rows_name_are_those_that_are_written():
    from dualad.sparse import calls

    for row in ROWS.values():
        assert row.pattern is None or callable(vars(calls)[row.pattern]), row
        assert row.blocks is None or type(row.blocks) is str, row


def test_the_dask_forms_that_rows_name_are_those_that_are_written():
    calls = pytest.importorskip("dualad.dask.calls", reason="dask (the extra `distributed`) is not installed")
    for row in ROWS.values():
        assert row.blocks is None or callable(vars(calls)[row.blocks]), row


# --- three new rows -----------------------------------------------------------------------------------------------------------------


@dualad.primitive
def softplus(x):
    return np.logaddexp(x, 0.0)


@dualad.primitive
def rows_turned(x):
    """Return the rows of x in reverse order, without the first, and zeros in the place of the last."""
    out = np.zeros_like(x)
    out[:-1] = x[:0:-1]
    return out


@dualad.primitive
def ripple(x):
    return np.asarray(np.sin(x) * x)[()]


def turned_back(g, x):
    return np.concatenate([np.zeros_like(g[:1]), g[-2::-1]]) if len(g) > 1 else np.zeros_like(g)


@pytest.fixture(scope="module")
def new_rows():
    fns = (softplus, rows_turned, ripple)
    dualad.rules.elementwise(softplus, lambda ans, x: 1.0 / (1.0 + np.exp(-x)))
    dualad.rules.linear(rows_turned, turned_back, moves=True)
    dualad.rules.composite(ripple, lambda x: np.sin(x) * x)
    yield fns
    for fn in fns:
        del ROWS[fn]


X = np.linspace(-1.0, 1.4, 6)
#: second derivatives
CURVATURES = {"softplus": np.exp(-X) / (1.0 + np.exp(-X)) ** 2, "rows_turned": np.zeros(6), "ripple": 2.0 * np.cos(X) - X * np.sin(X)}
SLOPES = {
    "softplus": np.diag(1.0 / (1.0 + np.exp(-X))),
    "rows_turned": np.vstack([np.eye(6)[:0:-1], np.zeros(6)]),
    "ripple": np.diag(np.cos(X) * X + np.sin(X)),
}


@pytest.mark.parametrize("k", range(3), ids=list(SLOPES))
def test_a_new_row_serves_every_interpreter(new_rows, k):
    f = new_rows[k]
    expected, v, w = SLOPES[f.__name__], np.cos(np.arange(6.0)), np.sin(1.0 + np.arange(6.0))
    close = lambda got, wanted: np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-15)
    whole = lambda x: np.sum(w * f(x))
    close(jvp(f, (X,), (v,))[1], expected @ v)
    close(grad(whole)(X), w @ expected)
    close(gradient(whole)(X), w @ expected)
    close(jacobian(f)(X), expected)  # K directions at once
    close(hessian(whole)(X), np.diag(w * CURVATURES[f.__name__]))
    close(hvp(whole, X, v), w * CURVATURES[f.__name__] * v)
    close(jit(f)(X), f(X))
    close(jit(jacobian(f))(X), expected)
    close(jit(grad(whole))(X), w @ expected)
    close(jit(hessian(whole))(X), np.diag(w * CURVATURES[f.__name__]))
    assert np.array_equal(sparsity(f, X).toarray(), expected != 0)
    assert np.array_equal(sparsity(f, X.astype(np.longdouble)).toarray(), expected != 0)


@pytest.mark.parametrize("k", range(3), ids=list(SLOPES))
def test_a_new_row_serves_dask_arrays(new_rows, k):
    da = pytest.importorskip("dask.array", reason="dask (the extra `distributed`) is not installed")
    f, w = new_rows[k], np.sin(1.0 + np.arange(6.0))
    x, v = da.from_array(X, chunks=4), da.from_array(w, chunks=4)
    tangent, cotangent = jvp(f, (x,), (v,))[1], grad(lambda x: np.sum(w * f(x)))(x)
    assert isinstance(tangent, da.Array) and isinstance(cotangent, da.Array)
    np.testing.assert_allclose(tangent.compute(), SLOPES[f.__name__] @ w, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(cotangent.compute(), w @ SLOPES[f.__name__], rtol=1e-13, atol=1e-15)


def test_a_new_row_that_moves_elements_is_asked_where_to_once():
    calls = []

    @dualad.primitive
    def turned(x):
        calls.append(np.shape(x))
        return x[::-1]

    dualad.rules.linear(turned, lambda g, x: g[::-1], moves=True)
    try:
        np.testing.assert_array_equal(jacobian(turned, chunk=6)(X), np.eye(6)[::-1])
    finally:
        del ROWS[turned]
    assert calls == [(6,), (6,)]  # the value, and its positions: not one call for each of six directions


def test_a_row_of_a_ufunc_of_another_package_is_all_it_needs():
    special = pytest.importorskip("scipy.special", reason="SciPy (the extra `scipy`) is not installed")
    ufunc = getattr(special._ufuncs, "_log1pmx", None)  # log(1 + x) - x
    if ufunc is None or ufunc in ROWS:
        pytest.skip("this SciPy has it not, or a row has it")
    x, w = np.abs(X), np.sin(1.0 + np.arange(6.0))
    whole = lambda x: np.sum(w * ufunc(x))
    dualad.rules.elementwise(ufunc, lambda ans, x: -x / (1.0 + x))
    try:
        for got in (grad(whole)(x), gradient(whole)(x), jit(grad(whole))(x)):
            np.testing.assert_allclose(got, -w * x / (1.0 + x), rtol=1e-14)
        np.testing.assert_allclose(hessian(whole)(x), np.diag(-w / (1.0 + x) ** 2), rtol=1e-14)
        np.testing.assert_allclose(jacobian(ufunc)(x), np.diag(-x / (1.0 + x)), rtol=1e-14)
        np.testing.assert_array_equal(jit(ufunc)(x), ufunc(x))
        assert sparsity(ufunc, x).nnz == 6
        if importlib.util.find_spec("dask.array") is not None:
            import dask.array as da

            found = grad(whole)(da.from_array(x, chunks=4))
            assert isinstance(found, da.Array)
            np.testing.assert_allclose(found.compute(), -w * x / (1.0 + x), rtol=1e-14)
    finally:
        del ROWS[ufunc]


def test_a_new_row_that_says_its_expression_is_computed_in_the_loops():
    pytest.importorskip("llvmlite", reason="the extra `jit` is not installed")
    from dualad.rules.scalars import Scalar

    @dualad.primitive
    def cubic(x):
        return x * x * x + 2.0 * x

    dualad.rules.elementwise(cubic, lambda ans, x: 3.0 * x * x + 2.0, scalar=Scalar(lambda x: x * x * x + 2.0 * x, 4))
    try:
        f = jit(grad(lambda x: np.sum(cubic(x) * cubic(x))))
        np.testing.assert_allclose(f(X), 2.0 * (X**3 + 2.0 * X) * (3.0 * X**2 + 2.0), rtol=1e-13)
        assert "cubic" not in f.source(X)
    finally:
        del ROWS[cubic]
