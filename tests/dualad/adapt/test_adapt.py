"""adapt: code that was not written for derivatives keeps them while it is adapted, and is as it was after."""

import functools
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest
from central import differences

import checkpoint as ck
import dualad
from dualad.core.standins import StandIn

SOURCE = """
import cmath
import functools
import math
import math as m
import numbers
import numpy
import numpy as np
from collections.abc import Iterable, Sized
from functools import partial
from math import exp, sin as sine
from numpy import array, asarray

as_floats = partial(np.asarray, dtype=float)
PLAIN = math.floor

def door(x): return np.sum(np.asarray(x, float) ** 2)
def imported(x): return np.sum(asarray(x) ** 2)
def of_objects(x):
    found = [part.item() ** 2 for part in np.nditer(np.array([x[0], x[1]], dtype=object), flags=["refs_ok"])]
    return found[0] * np.interp(0.3, [0.0, 1.0], [x[1], x[2]]) + np.sum(np.linalg.inv([[x[0], 1.0], [0.2, 3.0]]))

class Reading:
    def __init__(self, x): self.x = x
    def __float__(self): return float(self.x[0] * 2.0)
    def __array__(self, dtype=None, copy=None): return self.x

def converts_itself(x): return float(Reading(x)) * np.sum(np.asarray(Reading(x)) ** 2)
def deep(x): return numpy.linalg.norm(numpy.array([x[0], 2.0 * x[1]]))
def listed(x): return np.sum(array([[x[0], 1.0], [x[1], x[2]]]) ** 3)
def copied(x):
    y = np.array(x, ndmin=2)
    y[0, 0] = 7.0
    return np.sum(y**2) + x[0]
def contiguous(x): return np.sum(np.ascontiguousarray(x[::-1]) * np.asfortranarray(x) * np.asanyarray(x) * np.require(x, requirements="C"))
def checked(x): return np.sum(np.asarray_chkfinite(x) ** 2)
def iterated(x): return np.sum(np.fromiter((part**2 for part in x), float)) * np.fromiter(x, float, 2)[1] + np.fromiter([1.0], float).sum()
def joined(x):
    column = np.c_[np.eye(2), x[:2]] @ np.r_[x[2], 0.5, x[0]]
    return np.prod(np.r_["0,1", x[:1], x[1:]]) + np.sum(np.r_[x, 1:3, column] ** 2) + np.c_[x[:1, None], x[1], 2.0].size * np.r_.ndmin
def filled(x): return np.sum(np.full((2, 2), x[0]) ** 2)
def in_lists(x):
    a, b, c = x
    rows = [[a, b, c], [c, a * a, b]]
    found = [np.max([x, x], axis=0), np.cov(rows), np.corrcoef(rows), np.gradient([a, b, c]), np.quantile(a=[a, b, c], q=0.3)]
    found += [np.polyfit([0.0, 1.0, 2.0], [a, b, c], 1), np.fft.rfft([a, b, c]).imag]
    found.append(np.linalg.multi_dot([[[a, b]], [[c, a], [a, b]], x[:2]]))
    return sum(np.sum(part**2) for part in found) + np.sum(x * (a, b, c))
def partially(x): return np.sum(as_floats(x) ** 2)
def masked(x):
    y = np.ones(len(x))
    y[x <= 0.1 * x[2]] = 0.0
    m = np.logical_and(x > 0.1, x < 0.9)
    y[m] = 1.0 - 2.0 * ((x[m] - 0.1) / 0.5) ** 2
    y[x > 0.9] *= 0.5
    return np.sum(y * x)
def mathematical(x): return sine(x[0]) * m.pow(x[1], 2) + exp(math.hypot(x[0], x[2]))
def mathematical_too(x): return math.remainder(x[0] * 9.0, x[2]) + math.dist(x, [0.0, 1.0, 2.0])
def complex_math(x):
    r, phi = cmath.polar(cmath.sqrt(x[1]) + cmath.exp(1j * x[0]) * cmath.log(x[2], 10))
    return r + phi * cmath.rect(x[0], x[1]).imag + cmath.acos(x[2] * 1j + 0.5).imag + cmath.phase(cmath.tanh(x[0] - 1j))
def pythonic(x): return float(x[0]) ** 2 + abs(complex(x[1]) * 1j) ** 2 + complex(1.0, x[2]).imag ** 3 + complex(x[0], x[1]).real
def by_keywords(x): return complex(real=x[0], imag=x[1]).imag ** 2 + complex(x[2], imag=2.0).real + complex(imag=x[0]).imag
def typed(x): return np.float64(x[0]) ** 2 + np.float64(np.sum(x))
def by_default(x, convert=np.float64, *, house=np.asarray): return convert(x[1]) * np.sum(house(x))
def is_a_number(x):
    assert isinstance(x[0], (float, np.floating)) and isinstance(x, np.ndarray) and isinstance(1.5, float) and not isinstance(1, float)
    return float(x[0])
def dtypes(x):
    y = np.zeros(3, dtype=np.float64) + np.asarray(x).astype(float) + np.array(1, np.float64)
    return np.sum(y) * np.finfo(np.float64).eps

def decorated(fn):
    @functools.wraps(fn)
    def inner(x): return fn(convert(x))
    convert = np.asarray
    return inner

@decorated
def through_a_closure(x): return np.sum(x**2)

class Base:
    convert = staticmethod(np.asarray)
    def __init__(self, x): self.x = self.convert(x, float)

class Model(Base):
    function = np.ascontiguousarray
    @property
    def total(self): return math.fsum(self.x) + float(self.x[0])
    @staticmethod
    def made(x): return np.array([x[0], x[1]])
    @classmethod
    def of(cls, x): return cls(x).total

def answers(x):
    made = np.zeros(2)
    kinds = type(x), type(made), type("Kind", (), {}).__name__, type(Base(1.0)).__name__
    names = [name for name in ("__len__", "__iter__", "shape", "real", "ndim") if hasattr(x, name)]
    return kinds, names, isinstance(x, Iterable), isinstance(x, Sized | bool), issubclass(type(x), numbers.Real), type(x) in (float, int)

class Field(np.ndarray):
    def __array_wrap__(self, made, context=None, return_scalar=False): return np.array(made)

def of_a_field(x):
    made = np.zeros(4)
    made[:3] = np.sum(x[1] * np.array([[0.5], [1.5], [2.0]]).view(Field) * np.ones((3, 2)), axis=1)
    return np.sum(made**2)
def methodical(x): return Model.of(x) * np.sum(Model.made(x))
def looped(x):
    total = 0.0
    for value in vectorized(x): total = total + value
    return total
vectorized = np.vectorize(math.sin)
"""
FUNCTIONS = [
    "by_default", "by_keywords", "checked", "complex_math", "contiguous", "converts_itself", "copied", "deep", "door", "dtypes",
    "filled", "imported", "in_lists", "is_a_number", "iterated", "joined", "listed", "looped", "masked", "mathematical", "mathematical_too",
    "methodical", "of_a_field", "of_objects", "partially", "pythonic", "through_a_closure", "typed",
]  # fmt: skip
X = np.array([0.3, -0.7, 1.1])
ROWS = {
    "stop": lambda m, x: m.np.arange(2.0 + x),
    "start, stop": lambda m, x: m.np.arange(x, 3.0),
    "start, stop, step": lambda m, x: m.np.arange(x, 5.0 * x, 0.5 * x),
    "by name": lambda m, x: m.np.arange(x, stop=5.0, step=x),
    "single": lambda m, x: m.np.arange(x, 3.0, dtype=np.float32),
    "of integers": lambda m, x: m.np.arange(0, 9.0 * x, dtype=int),
}


@pytest.fixture
def code(monkeypatch):
    """A module that its author never meant to be differentiated."""
    module = ModuleType("others_code")
    monkeypatch.setitem(sys.modules, "others_code", module)
    exec(compile(SOURCE, "others_code.py", "exec"), vars(module))
    return module


def state(module):
    """What a module's names, classes, defaults and closures hold."""
    classes = [module.Base, module.Model]
    return (
        dict(vars(module)),
        [dict(vars(kind)) for kind in classes],
        module.by_default.__defaults__,
        dict(module.by_default.__kwdefaults__),
        [cell.cell_contents for cell in module.through_a_closure.__closure__],
        module.vectorized.pyfunc,
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_adapted_code_keeps_derivatives(code, name):
    f = getattr(code, name)
    value, slopes = f(X), differences(f, X)
    with dualad.adapt(code):
        assert f(X) == value  # plain numbers pass as ever
        result, gradient = ck.value_and_grad(f)(X)
        assert result == value
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(dualad.gradient(f)(X), slopes, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_adapted_code_compiles(code, name):
    f = dualad.adapt(getattr(code, name))
    compiled = dualad.jit(ck.value_and_grad(f))
    for x in (X, X + 0.25):
        value, gradient = compiled(x)
        expected, slopes = ck.value_and_grad(f)(x)
        np.testing.assert_allclose(value, expected, rtol=1e-14)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-12)
    assert compiled.traces == 1


def test_all_is_restored(code):
    before = state(code)
    with dualad.adapt(code):
        assert type(code.np) is StandIn and code.by_default.__defaults__[0] is not np.float64 and "float" in vars(code)
        with dualad.adapt(code.door, code):
            assert ck.grad(code.door)(X)[0] == 0.6
        assert ck.grad(code.door)(X)[0] == 0.6  # the inner one leaves it adapted
    assert state(code) == before
    with pytest.raises(ZeroDivisionError), dualad.adapt(code.Model):
        raise ZeroDivisionError
    assert state(code) == before
    with pytest.raises(TypeError, match="would lose its derivative"):
        ck.grad(code.mathematical)(X)


def test_what_the_code_assigns_meanwhile_stays(code):
    with dualad.adapt(code):
        code.np = "another thing"
    assert code.np == "another thing"


def test_functions_and_decorators(code):
    before = state(code)
    assert dualad.adapt(code.door).__name__ == "door"
    np.testing.assert_allclose(ck.grad(dualad.adapt(code.door))(X), 2 * X)

    @dualad.adapt(code)
    def total(x):
        return code.door(x) + code.mathematical(x)

    np.testing.assert_allclose(ck.grad(total)(X), differences(total, X), rtol=1e-6)
    again = dualad.adapt(code)
    for _ in range(2):
        with again:
            ck.grad(code.door)(X)
    assert state(code) == before


def test_classes_stand_for_the_modules_of_their_bases(code):
    with dualad.adapt(code.Model):
        np.testing.assert_allclose(ck.grad(lambda x: code.Model(x).total)(X), [2.0, 1.0, 1.0])


def test_threads_share_what_is_adapted(code):
    before, results, meet = state(code), {}, threading.Barrier(4)

    def work(i):
        f = dualad.adapt(code.mathematical)
        meet.wait()
        results[i] = [ck.grad(f)(X + i).tolist() for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    for i in range(4):
        assert all(row == results[i][0] for row in results[i])
        np.testing.assert_allclose(results[i][0], differences(code.mathematical, X + i), rtol=1e-5)
    assert state(code) == before


@pytest.mark.parametrize("x", [0.3, np.float64(0.3), X], ids=["float", "float64", "array"])
def test_questions_are_answered_as_of_the_value(code, x):
    seen = []

    def f(y):
        seen.append(code.answers(y))
        return np.sum(y * y)

    with dualad.adapt(code):
        for verb in (dualad.gradient, ck.grad, dualad.jit):
            verb(f)(x)
    plain = code.answers(x)
    assert seen and all(answer == plain for answer in seen)


def test_exact_questions_keep_python_s_own_types(code):
    """No other type is float, so where one asks ``type(x) is float`` the name stays Python's."""
    exec("def asks_exactly(x): return float(x) if type(x) is float else -1.0", vars(code))
    with dualad.adapt(code):
        assert "float" not in vars(code)
        assert code.asks_exactly(2.0) == 2.0


class Compiled:
    """What numba makes of a Python function: a dispatcher, or a ufunc."""

    __module__ = "numba.core"

    def __init__(self, **parts):
        vars(self).update(parts)

    def __call__(self, *args):
        raise TypeError("compiled code takes floats")


def test_what_numba_compiles_is_run_as_python(code):
    exec("def powered(x, n): return math.pow(x, n)\ndef looped(x): return square(x[0]) + cubes(x[1]) + np.sum(cubes(x))", vars(code))
    code.square = Compiled(py_func=functools.partial(code.powered, n=2.0))
    code.of_rows = rows = Compiled(signature="(n)->()", _dispatcher=Compiled(py_func=print))  # takes arrays, and one for its result
    code.cubes = Compiled(_dispatcher=Compiled(py_func=functools.partial(code.powered, n=3.0)))
    with dualad.adapt(code):
        assert code.of_rows is rows
        np.testing.assert_allclose(ck.grad(code.looped)(X), 3 * X**2 + [2 * X[0], 3 * X[1] ** 2, 0.0])
    assert type(code.square) is type(code.cubes) is Compiled


def test_objects_that_answer_no_question_are_left_alone(code):
    class Missing:
        def __getattribute__(self, name):
            raise ModuleNotFoundError(name)

    code.missing = Missing()
    with dualad.adapt(code):
        assert ck.grad(code.door)(X)[0] == 0.6


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_numbers_in_a_row(code, row):
    f = lambda x: np.dot(np.cos(np.arange(len(row(code, 0.3)))), row(code, x))
    dtypes, plain, slope = [], row(code, 0.3), differences(lambda x: f(x[0]), np.array([0.3]))[0]
    with dualad.adapt(code):
        np.testing.assert_array_equal(dualad.jvp(lambda x: row(code, x) + 0.0 * x, (0.3,), (1.0,))[0], plain)
        assert row(code, 0.3).dtype == plain.dtype
        dualad.jvp(lambda x: dtypes.append(row(code, x).dtype) or x, (0.3,), (1.0,))
        assert dtypes == [plain.dtype]
        for verb in (dualad.derivative, ck.grad):
            assert verb(f)(0.3) == pytest.approx(slope, rel=1e-7 if plain.dtype != np.float32 else 0.1, abs=1e-9)


def test_order_two(code):
    f = dualad.adapt(code.mathematical)
    hessian = dualad.hessian(f)(X)
    np.testing.assert_allclose(hessian, differences(ck.grad(f), X), rtol=1e-5, atol=1e-7)


def test_modules_of_the_same_package_are_followed(code, monkeypatch):
    package, inner = ModuleType("parcel"), ModuleType("parcel.inner")
    package.__package__ = "parcel"
    for name, module in {"parcel": package, "parcel.inner": inner}.items():
        monkeypatch.setitem(sys.modules, name, module)
    exec("import math\ndef root(x): return math.sqrt(x)", vars(inner))
    exec("from parcel.inner import root\ndef doubled(x): return 2.0 * root(x)", vars(package))
    assert dualad.derivative(dualad.adapt(package.doubled))(4.0) == 0.5
    exec("def of(xp):\n    def made(f):\n        def inner(x): return f(x, xp)\n        return inner\n    return made", vars(inner))
    exec("from parcel import inner\nimport numpy\nones = inner.of(numpy)(lambda n, xp: xp.ones(n))", vars(package))
    exec("def written(x):\n    y = ones(2)\n    y[0] = x\n    return y.sum()", vars(package))
    assert dualad.derivative(dualad.adapt(package.written))(4.0) == 1.0
    monkeypatch.setitem(sys.modules, "parcel.numpy", np)
    with dualad.adapt(package):
        assert dualad.derivative(package.doubled)(4.0) == 0.5
        assert np.asarray is sys.modules["parcel.numpy"].asarray is not dualad.core.standins.stand_in(np.asarray), "NumPy is left as it is"


def test_scipy_is_reached_by_rows(code):
    pytest.importorskip("scipy")
    exec(
        "import scipy.stats\nfrom scipy import special, stats\nfrom scipy.special import logsumexp\n"
        "def posterior(x):\n"
        "    return logsumexp(x) + stats.norm.logpdf(x[0], scale=2.0) + special.softmax(x)[1] + scipy.stats.norm(0.0, 1.0).mean()",
        vars(code),
    )
    exec("def listed(x): return special.expit([x[0], 0.3])[0] * special.gammainc([1.5, 2.0], np.abs([x[1], x[2]]))[1]", vars(code))
    with dualad.adapt(code):
        for f in (code.posterior, code.listed):
            np.testing.assert_allclose(ck.grad(f)(X), differences(f, X), rtol=1e-6)
            np.testing.assert_allclose(dualad.gradient(f)(X), differences(f, X), rtol=1e-6)
        exec("def refused(x): return stats.levy(scale=2.0).logpdf(x[0])", vars(code))
        with pytest.raises(TypeError, match=r"^scipy\.stats\.levy\.logpdf asks .*: give the call a rule of its own"):
            ck.grad(code.refused)(X)
    with pytest.raises(TypeError, match=r"^scipy\.stats\.norm\.logpdf asks .*: write dualad\.scipy\.stats\.norm\.logpdf, or "):
        ck.grad(lambda x: code.stats.norm(0.0, 1.0).logpdf(x))(0.5)


def test_stand_ins_pickle_as_the_modules(code):
    with dualad.adapt(code):
        assert pickle.loads(pickle.dumps(code.np)) is np
        assert "asarray" in dir(code.np)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (np, "adapt: numpy is not adapted"),
        (np.linalg, "belongs to numpy"),
        (ck.grad, "belongs to checkpoint"),
        (sys, "is compiled"),
        (np.sin, "which is not adapted|is written in C"),
        (np.linalg.norm, "the function norm belongs to numpy"),
        (len, "is written in C"),
        (3, "is no module, class or function"),
        ("numpy", "is no module, class or function"),
        (dict, "is written in C"),
        (np.ma.MaskedArray, "the class MaskedArray belongs to numpy"),
        (type("Unknown", (), {"__module__": "never_imported"}), "is written in C"),
        (functools.singledispatchmethod(len), "is no module, class or function"),
        (type("Model", (), {"__call__": lambda self: 1.0})(), "is an object: give a module, a class or a function"),
        (ModuleType("never_imported"), "is not in sys.modules"),
    ],
)
def test_what_cannot_be_adapted_is_refused(target, words):
    with pytest.raises(TypeError, match=words):
        dualad.adapt(target)


def test_nothing_to_adapt_is_refused():
    with pytest.raises(TypeError, match="no targets"):
        dualad.adapt()


def test_scipy_itself_is_refused():
    scipy = pytest.importorskip("scipy.integrate")
    with pytest.raises(TypeError, match=r"dualad\.scipy"):
        dualad.adapt(scipy)
