"""What a compiled function cannot do is refused by name, with the line and the way out; what looks like it stays right."""

import datetime
import itertools
import os
import random
import re
import secrets
import time
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pytest
from comparing import same
from in_groups import for_each

from dualad import implicit, jit, jvp
from dualad.graph.handled import rerun_in_numpy
from dualad.jit import compiled
from dualad.jit.compiled import BACKENDS
from dualad.jit.impure import state_of
from dualad.jit.watch import Watch

X, K = np.linspace(0.1, 1.0, 5), np.arange(5)
RNG, PYTHON_RNG, LEGACY = np.random.default_rng(0), random.Random(0), np.random.RandomState(0)
COUNTER, OUTSIDE = itertools.count(), np.zeros(5)
BOTH = ["numpy", "llvm"]


@lru_cache
def cached(x):
    return 2.0 * x


def written(x, index, v):
    x[index] = v
    return x


def helper(x):
    return x * RNG.integers(2)


EQUATIONS = implicit(lambda x, p: x * x - p, np.sqrt, sparsity=np.eye(5))
#: the function, its arguments, and what the message says besides the line
REFUSED = {
    # shapes that depend on data
    "x[mask]": (lambda x: x[x > 0.5], X, r"a result .* boolean mask .* np\.where\(mask, x, 0\.0\)"),
    "x[mask] = values": (lambda x: written(x, x > 0.5, x[:3]), X, r"x\[\.\.\.\] = np\.where\(mask, values, x\)"),
    "x[mask, mask]": (lambda x: written(np.outer(x, x), (x > 0.5, x > 0.5), 0.0), X, r"a traced mask and other arrays.* np\.where"),
    "compress": (lambda x: np.compress(x > 0.5, x), X, r"a result .* boolean mask .* np\.where"),
    "nonzero": (lambda x: np.nonzero(x > 0.5), X, r"a result .* boolean mask .* np\.where"),
    "where(mask)": (lambda x: np.where(x > 0.5), X, r"a result .* boolean mask .* np\.where"),
    "argwhere": (lambda x: np.argwhere(x > 0.5), X, r"numpy\.argwhere .* np\.where"),
    "unique": (np.unique, X, r"numpy\.unique looks at values"),
    # values
    "float()": (lambda x: float(x[0]), X, r"float\(\) .* NumPy functions"),
    "float": (lambda x: float(x), 1.0, r"float\(\) \(or a function of math.*np\.sin, not math\.sin"),
    "plain array": (lambda x: written(OUTSIDE, 0, x[0]), X, r"assignment into a plain array.* np\.zeros_like"),
    "dict[x]": (lambda x: {0.5: 1.0}[x], 0.5, r"a hash .* np\.where"),
    "cached": (cached, 1, r"a hash .* cached function"),
    "format": (lambda x: f"{x:.3f}", 2.0, r"needs a plain value.* look at it outside of jit"),
    "implicit, sparse": (EQUATIONS, X, r"the solver of dualad\.implicit with sparsity= is given plain values.* leave out sparsity="),
    "implicit": (lambda x: implicit(np.subtract, lambda p: x)(x), X, r"the solver of dualad\.implicit has a traced value in its closure"),
    # impure values
    "random": (lambda x: x * random.random(), X, r"draws random numbers \(random\)"),
    "random, rounded": (lambda x: x * int(random.random()), X, r"draws random numbers \(random\)"),
    "Random": (lambda x: x * PYTHON_RNG.random(), X, r"draws random numbers \(random\)"),
    "numpy.random": (lambda x: x * np.random.rand(), X, r"draws random numbers \(numpy\.random\)"),  # noqa: NPY002
    "RandomState": (lambda x: x * LEGACY.rand(), X, r"draws random numbers \(numpy\.random\.RandomState\)"),
    "Generator": (helper, X, r"helper draws random numbers \(numpy\.random\.Generator\)"),
    "default_rng()": (lambda x: x * np.random.default_rng().normal(), X, r"two traces of .* differ"),
    "secrets": (lambda x: x * secrets.randbits(60), X, r"two traces of .* differ"),
    "urandom": (lambda x: x * int.from_bytes(os.urandom(8), "big", signed=True), X, r"two traces of .* differ"),
    "clock": (lambda x: x * time.perf_counter(), X, r"two traces of .* differ .* a clock .* pass them as arguments"),
    "now": (lambda x: x * datetime.datetime.now().timestamp(), X, r"two traces of .* differ"),
    "counter": (lambda x: x * next(COUNTER), X, r"two traces .*numpy\.multiply gets \d+ and then \d+\).* pass them as arguments"),
    "counted branch": (lambda x, n=[]: (n.append(1), np.sin(x) if len(n) % 2 else np.cos(x))[1], X, r"two traces of .* differ"),
    "counted turns": (lambda x, n=[]: (n.append(1), sum([x] * len(n)))[1], X, r"two traces of .* differ"),
    "random result": (lambda x: (x, np.array([random.random()])), X, r"draws random numbers \(random\)"),
    "random number": (lambda x: (x, random.random()), X, r"draws random numbers \(random\)"),
    # arguments
    "object array": (lambda x: x, np.array([None]), r"argument 0 has dtype object"),
    "text array": (lambda x: x, np.array(["a"]), r"argument 0 has dtype <U1"),
    "dates": (lambda x: x, np.array(["2020-01-01"], "M8[D]"), r"argument 0 has dtype datetime64\[D\]"),
    "structured": (lambda x: x, np.zeros(3, [("a", float)]), r"argument 0 has dtype .*'a'"),
    "masked": (lambda x: x, np.ma.masked_array(X, X > 0.5), r"argument 0 is a MaskedArray: pass a plain array"),
    "set": (lambda x: x, {1.0}, r"argument 0 is a set, neither array nor number.* static"),
    "Decimal": (lambda x: x["a"], {"a": Decimal(1)}, r"argument 0\['a'\] is a Decimal"),
    # results
    "returns object": (lambda x: object(), X, r"returns: object, which is no array or number"),
    "returns set": (lambda x: {1}, X, r"returns: set, which is no array"),
    "returns generator": (lambda x: (v for v in x), X, r"returns: generator, "),
    "astype(str)": (lambda x: x.astype(str), X, r"no array or number"),
}
WITHOUT_LINE = r"draws|argument 0|returns: "


@for_each("name", REFUSED)
def test_refused(name):
    f, x, message = REFUSED[name]
    line = "" if re.match(WITHOUT_LINE, message.replace("helper ", "")) else r"\S+\.py, line \d+: "
    for _ in range(2):  # a refusal leaves nothing behind
        with pytest.raises(TypeError, match=rf"^jit: {line}.*{message}"):
            jit(f, backend="numpy")(x)


def test_imaginary_parts_of_object_arrays_are_refused():
    """They were zero: NumPy answers for object arrays itself."""
    with pytest.raises(TypeError, match=r"traced number becomes complex while an object array holds traced numbers \(in <lambda>"):
        jit(lambda x: (np.mean([x, x], axis=0) * (1.0 + 0.5j)).imag)(X)


#: right by Python's or NumPy's own semantics, though the loops have 64 bits and no exceptions
RIGHT = {
    "large argument": (lambda k: k * 3, 1 << 63),
    "large argument and array": (lambda x, k: x * (k % 7), X, 1 << 70),
    "product": (lambda k: k * k * k * k, 10**5),
    "sum": (lambda k: k + (1 << 62) + (1 << 62), 1),
    "difference": (lambda k: -k - 2, (1 << 63) - 1),
    "negative": (lambda k: -k, -(1 << 63)),
    "absolute": (abs, -(1 << 63)),
    "power": (lambda k: k**20, 10),
    "square": (lambda k: k**2, 1 << 32),
    "power of a difference": (lambda k: (k - 7) ** 3 % 5, 5),
    "negative power": (lambda k: k**-2, 10),
    "quotient": (lambda k: k // -1, -(1 << 63)),
    "remainder": (lambda k: (-k) % 7 - k // 3, 10),
    "shift": (lambda k: k << 70, 1),
    "booleans": (lambda x: (x > 1.0) + (x > 2.0) + (x > 9.0), 3.0),
    "large constant": (lambda k: k * 10**20, 3),
    "large constant and float": (lambda x: x * 10**20, 1.5),
    "large constant and array": (lambda x: x * 10**20 + 2, X),
    "large factor": (lambda x, k: x * k**30, X, 10),
    "64 bits wrap as NumPy's": (lambda k: k * k * k * k, np.array([10**5])),
    "longdouble": (lambda x: np.sin(x) * 2, X.astype(np.longdouble)),
    "half": (lambda x: np.sin(x) * 2, X.astype(np.float16)),
    "longdouble inside": (lambda x: x * (np.sum(x) * np.longdouble(1.5)).astype(float), X),
    "half inside": (lambda x: x.astype(np.float16).astype(float) * 2, X),
    "ravel in memory's order": (lambda x: np.ravel(np.outer(x, x).T, "K") + np.outer(x, x).copy("F").flatten("A"), X),
    "big-endian": (lambda x: np.sin(x) + x[::-1], X.astype(">f8")),
    "big-endian int": (lambda k: k * 2, K.astype(">i4")),
    "seeded inside": (lambda x: x * np.random.default_rng(0).normal(), X),
}


@pytest.mark.parametrize("backend", BOTH)
@for_each("name", RIGHT)
def test_right(name, backend):
    f, *args = RIGHT[name]
    compiled = jit(f, backend=backend)
    for _ in range(2):
        same(compiled(*args), f(*args))


def test_the_tangent_of_a_number_is_written_into():
    def f(x):
        return np.piecewise(x, [True], [lambda y: y * y])

    x = np.asarray(0.3)
    same(jvp(jit(f, backend="llvm"), (x,), (x,)), jvp(f, (x,), (x,)))


def test_an_integer_that_grows_later_stays_exact():
    for backend in BOTH:
        f = jit(lambda k: (k * k * k, np.ones(2) * k), backend=backend)
        assert f(2)[0] == 8 and len(f.entries) == 1
        cube, row = f(10**7)
        assert cube == 10**21 and row.tolist() == [1e7, 1e7] and len(f.entries) == 1
        assert jit(lambda k: k**5, backend=backend)(-3) == -243


#: errors that only some arguments raise: good ones, bad ones, the error
LATER = {
    "index": (lambda x, i: x[i] * 2.0, (X, 1), (X, 9), IndexError, r"index 9 is out of bounds for axis 0 with size 5"),
    "negative index": (lambda x, i: x[i] * 2.0, (X, -1), (X, -6), IndexError, r"index -6 is out of bounds for axis 0 with size 5"),
    "second axis": (lambda x, i: x[0, i], (np.eye(3), 1), (np.eye(3), 3), IndexError, r"index 3 is out of bounds for axis 1 with size 3"),
    "indices": (lambda x, i: x[i], (X, K[:2]), (X, K[:2] + 8), IndexError, r"index 8 is out of bounds for axis 0 with size 5"),
    "assignment": (lambda x, i: written(x, i, 0.0), (X, 1), (X, 7), IndexError, r"index 7 is out of bounds for axis 0 with size 5"),
    "array outside": (lambda x, i: x * X[i], (2.0, 1), (2.0, 9), IndexError, r"index 9 is out of bounds for axis 0 with size 5"),
    "quotient": (lambda k, n: k // n, (3, 2), (3, 0), ZeroDivisionError, r"by zero"),
    "remainder": (lambda k, n: k % n, (3, 2), (3, 0), ZeroDivisionError, r"by zero"),
    "singular": (lambda a: np.linalg.inv(a) * 2.0, (np.eye(2),), (np.zeros((2, 2)),), np.linalg.LinAlgError, r"Singular"),
}


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("name", LATER)
def test_errors_of_later_calls_name_the_line(name, backend):
    f, good, bad, error, message = LATER[name]
    compiled, line = jit(f, backend=backend), f"test_edges.py, line {f.__code__.co_firstlineno}"
    np.testing.assert_allclose(compiled(*good), f(*[np.copy(x) if isinstance(x, np.ndarray) else x for x in good]), rtol=1e-15)
    for _ in range(2):
        with pytest.raises(error, match=message) as caught:
            compiled(*bad)
        if error is not IndexError:
            assert any("test_edges.py, line" in note for note in caught.value.__notes__)
        elif "written" not in f.__code__.co_names:
            assert f"jit: {line}: " in str(caught.value)
    np.testing.assert_allclose(compiled(*good), f(*[np.copy(x) if isinstance(x, np.ndarray) else x for x in good]), rtol=1e-15)


def test_tangents_fail_as_values_do():
    for backend in BOTH:
        f = jit(lambda x, i: x[i] * x[i], backend=backend)
        assert jvp(lambda x: f(x, 1), (X,), (np.ones(5),))[1] == 2.0 * X[1]
        with pytest.raises(IndexError, match=r"test_edges.py, line \d+: index 9 is out of bounds for axis 0 with size 5"):
            jvp(lambda x: f(x, 9), (X,), (np.ones(5),))


def test_results_of_another_evaluation_are_the_callers_own():
    f = jit(lambda x: (x, np.ones(3), x[0]), backend="numpy")
    f(X)
    (entry,) = f.entries.values()
    same, ones, _ = rerun_in_numpy(entry.compiled.program, (X,), {})
    assert not np.shares_memory(same, X) and ones.flags.writeable


def test_generators_that_are_only_passed_on_are_no_reason():
    def f(x, use=RNG):
        return x * 2.0

    watch = Watch(f)
    assert [name for name, _ in watch.generators] == ["numpy.random.Generator"]
    assert jit(f)(1.0) == 2.0 and state_of(RNG) == state_of(RNG)


def test_without_llvm(monkeypatch):
    monkeypatch.delitem(BACKENDS, "llvm")
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    f = jit(lambda x: x + 1.0)
    assert f(1.0) == 2.0
    assert "NumPy: 1 operations" in f.explain(1.0) and "because llvmlite is not installed: pip install 'dualad[jit]'" in f.explain(1.0)
    with pytest.raises(ValueError, match=r"llvmlite is not installed: pip install 'dualad\[jit\]'"):
        jit(lambda x: x, backend="llvm")


def test_an_llvmlite_that_cannot_be_imported_is_told_once(monkeypatch):
    def broken(program):
        raise ImportError("llvmlite needs another LLVM")

    monkeypatch.setitem(BACKENDS, "llvm", broken)
    f = jit(lambda x: np.sum(x * 2.0))
    with pytest.warns(UserWarning, match="llvm cannot be imported, NumPy runs what is compiled.*another LLVM"):
        assert f(X) == np.sum(X * 2.0)
    assert "NumPy: " in f.explain(X) and "because llvm failed: ImportError('llvmlite needs another LLVM')" in f.explain(X)
    assert jit(lambda x: x + 1.0)(1.0) == 2.0  # a second warning would be an error
    assert compiled.BACKENDS["llvm"] is BACKENDS["numpy"]


def test_a_function_without_arrays_is_compiled(recwarn):
    assert jit(lambda s: s)("a") == "a" and jit(lambda s: np.ones(2) * 3.0)("a").tolist() == [3.0, 3.0]
    assert not recwarn.list


def test_calls_that_numpy_makes_are_explained():
    pytest.importorskip("llvmlite")
    fast = jit(lambda n, x: (n * n, x * 2.0))
    for n in (3, 2**40, 2**41, 4):
        assert fast(n, X)[0] == n * n
    assert "; NumPy made 2 calls after OverflowError: jit: a Python integer grows beyond 64 bits" in fast.explain(3, X)


def test_members_that_compiled_code_refuses_are_told(monkeypatch):
    pytest.importorskip("llvmlite")
    from dualad.codegen.member_kernels import MemberKernels

    monkeypatch.setattr(MemberKernels, "__call__", lambda *_: np.empty(-1))
    rows = np.arange(12.0).reshape(4, 3)
    with pytest.warns(UserWarning, match=r"the compiled loop over members of .* ended with ValueError.*one by one"):
        found = jit(lambda x: np.sin(x) * 2.0).map(rows)
    np.testing.assert_allclose(found, np.sin(rows) * 2.0, rtol=1e-12)
