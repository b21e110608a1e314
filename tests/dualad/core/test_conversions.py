"""Where plain numbers are asked for: object arrays keep what is promised of them, other kinds of arrays are refused or go first."""

import dataclasses
import math
import sys
import types
import warnings

import numpy as np
import pytest

import dualad
from checkpoint import grad, value_and_grad, vjp
from dualad import Dual, gradient, jvp, primal
from dualad.core.flat import Flat
from dualad.core.levels import Handle
from dualad.core.traced import Traced

X = np.array([3.0, 4.0, 0.5])
both = pytest.mark.parametrize("differentiate", [gradient, grad])


# --- object arrays ------------------------------------------------------------------------------------------------------------

REDUCTIONS = [np.mean, np.std, np.var, np.median, np.average, np.sum, np.prod, np.max, np.min, np.ptp]


@both
@pytest.mark.parametrize("fn", REDUCTIONS, ids=lambda fn: fn.__name__)
def test_reductions_of_lists_and_object_arrays(fn, differentiate):
    expected = differentiate(lambda x: fn(np.stack([x[0], x[1] * x[2], x[2]])))(X)
    for make in (list, np.array):
        f = lambda x, make=make: fn(make([x[0], x[1] * x[2], x[2]]))
        np.testing.assert_allclose(differentiate(f)(X), expected, rtol=1e-14)
        table = lambda x, make=make: np.sum(fn(make([[x[0], x[1]], [x[2], x[0] * x[1]]]), axis=0))
        whole = lambda x: np.sum(fn(np.reshape(np.stack([x[0], x[1], x[2], x[0] * x[1]]), (2, 2)), axis=0))
        np.testing.assert_allclose(differentiate(table)(X), differentiate(whole)(X), rtol=1e-13)


def test_every_loop_of_numpy_over_objects_answers():
    """Those that ask the elements for a method, and those that use operators."""
    a, b = np.array([0.3, 0.7]), np.array([0.6, 0.2])
    asked = {fn for fn in vars(np).values() if isinstance(fn, np.ufunc) and {"O->O", "OO->O"} & set(fn.types)}
    ruled = {fn for fn in asked if isinstance(dualad.rules.kinds.ROWS.get(fn), dualad.rules.kinds.Elementwise)}
    assert {np.hypot, np.arctan2, np.fmod, np.fmax, np.power, np.sin} <= ruled
    for fn in ruled:
        args = (a, b)[: fn.nin]
        args = tuple(arg + 1.0 for arg in args) if fn is np.arccosh else args
        directions = tuple(np.array([0.7, -0.4]) for _ in args)
        objects = lambda *args, fn=fn: fn(*(np.array([x[0], x[1]]) for x in args))
        for got, expected in zip(jvp(objects, args, directions), jvp(fn, args, directions), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-14, err_msg=fn.__name__)


@both
def test_complex_numbers_do_not_vanish_in_object_arrays(differentiate):
    """NumPy answers .real and .imag of an object array itself, with zeros."""
    for f in (
        lambda x: np.sum(np.imag(1j * np.array([x[0], x[1]]))),
        lambda x: np.sum((np.array([x[0], x[1]]) * (1.0 + 1.0j)).real),
        lambda x: np.sum(np.exp(1j * np.array([x[0], x[1]])).imag),
        lambda x: np.sum((np.asarray(x) + 1j).imag),
        lambda x: np.sum(np.array([x[0], 1j * x[1]]).imag),
        lambda x: differentiate(lambda y: np.sum(np.imag(1j * np.array([x[0] * y, y]))))(2.0),
    ):
        with pytest.raises(TypeError, match=r"complex.*np\.stack"):
            differentiate(f)(X)
    assert differentiate(lambda x: np.sum(np.imag(1j * np.stack([x[0], x[1]]))))(X).tolist() == [1.0, 1.0, 0.0]


@both
def test_branches_of_the_user_decide_ties(differentiate):
    def chosen(x):
        a = np.array([x[0], x[1] - 1.0])
        return a[0] if a[0] >= a[1] and a[1] <= a[0] else a[1]

    assert differentiate(chosen)(X).tolist() == [1.0, 0.0, 0.0]


def test_object_arrays_without_traced_values_count_as_numbers():
    value, pullback = vjp(lambda x: np.min(np.array([[x, x], [0.5, 0.5]]), axis=0), 1.0)
    assert value.dtype == float and value.tolist() == [0.5, 0.5] and pullback(np.ones(2)) == (0.0,)
    plain = np.array([2.0, 3.0, 4.0], object)
    for f in (lambda x: plain * x, lambda x: x - plain, lambda x: np.where(X > 1, plain, x), lambda x: np.dot(plain, x)):
        floats = plain.astype(float)
        with_numbers = lambda x, f=f: types.FunctionType(f.__code__, {**globals()}, closure=(types.CellType(floats),))(x)
        for got, expected in zip(jvp(f, (X,), (X,)), jvp(with_numbers, (X,), (X,)), strict=True):
            assert np.asarray(got).dtype == float
            np.testing.assert_array_equal(got, expected)


@pytest.mark.filterwarnings("ignore:packing an object array")
def test_no_object_array_leaves_a_derivative():
    f = lambda x: (np.array([x[0], x[1]]), {"plain": np.array([1.0, 2.0], object)})
    value, tangent = jvp(f, (X,), (X,))
    assert value[0].dtype == tangent[0].dtype == value[1]["plain"].dtype == tangent[1]["plain"].dtype == float
    aux = lambda x: (x[0], np.array([x[0], 2.0]))
    for seen in (
        value_and_grad(aux, has_aux=True)(X)[0][1],
        jvp(aux, (X,), (X,), has_aux=True)[2],
        gradient(aux, has_aux=True)(X)[1],
        vjp(aux, X, has_aux=True)[2],
    ):
        assert seen.dtype == float and seen.tolist() == [3.0, 2.0]
    kept = []
    grad(lambda x: kept.append(primal(np.array([x[0], 2.0]))) or x[0])(X)
    assert kept[0].dtype == float and kept[0].tolist() == [3.0, 2.0]
    stopped = grad(lambda x: np.sum(x[0] * dualad.stop_gradient(np.array([x[0], x[1]]))))(X)
    assert stopped.tolist() == [7.0, 0.0, 0.0]


def test_a_large_array_that_becomes_an_object_array_warns_with_the_users_line():
    def f(x):
        x = np.asarray(x)
        return np.sum(x)

    with pytest.warns(UserWarning, match="array of 40 elements becomes an object array") as caught:
        grad(f)(np.ones(40))
    assert (caught[0].filename, caught[0].lineno) == (__file__, f.__code__.co_firstlineno + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grad(f)(np.ones(8))


# --- numbers ------------------------------------------------------------------------------------------------------------------


@both
def test_conversions_to_integers_are_constants(differentiate):
    for convert in (int, np.int64, np.int8, np.bool_, lambda x: np.asarray(x, int)[()], lambda x: np.array(x, np.uint8)[()]):
        assert differentiate(lambda x, convert=convert: x[0] * convert(x[1]))(X)[0] == convert(4.0)
    assert differentiate(lambda x: np.sum(x * np.array(x, dtype=int)))(X).tolist() == [3.0, 4.0, 0.0]

    def written(x):
        a, b = np.zeros(3, int), np.zeros(3, int)
        a[:] = x
        b[0] = x[0]
        return np.sum(a * x + b)

    assert differentiate(written)(X).tolist() == [3.0, 4.0, 0.0]


# --- words --------------------------------------------------------------------------------------------------------------------


def statement(name, text):
    """Return a function of x that executes a statement, in a file of the given name."""
    space = {"np": np, "math": math}
    exec(compile(f"def f(x):\n    a = np.zeros(3)\n    {text}\n    return a", name, "exec"), space)
    return space["f"]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("a[0] = x[0]", r"written into an array of plain numbers.*np\.zeros_like\(x"),
        ("a[0:2] = x[0]", r"written into an array of plain numbers.*np\.zeros_like\(x"),
        ("a[:] = x", r"written into an array of plain numbers.*np\.zeros_like\(x"),
        ("a[[0, 1]] = x[:2]", r"written into an array of plain numbers.*np\.zeros_like\(x"),
        ("a[a == 0.0] = x", r"written into an array of plain numbers.*np\.zeros_like\(x"),
        ("a.fill(x[0])", r"float\(\) of a traced .*np\.zeros_like\(x"),
        ("np.sum(a, initial=x[0])", r"float\(\) of a traced .*np\.zeros_like\(x"),
        ("np.interp(a, a, a, left=x[0])", r"numpy\.interp asks a traced .*np\.where"),
        ("np.interp(2.0, a, a, None, x[0])", r"numpy\.interp asks a traced .*np\.where"),
        ("math.sin(x[0])", r"np\.sin, not math\.sin"),
        ("np.float64(x[0])", r"drop the dtype if one was given"),
        ("np.array([x[0], 1.0], dtype=float)", r"np\.stack"),
        ("np.array([x[0], x[1]]).astype(float)", r"np\.stack"),
        ("complex(x[0])", r"a \+ 1j \* b"),
    ],
)
@both
def test_the_last_line_says_what_to_do(text, advice, differentiate):
    """Also where NumPy puts an error of its own before ours; the traceback ends at the user's line or in ours."""
    with pytest.raises(TypeError, match=advice) as caught:
        differentiate(statement("written by a user", text))(X)
    assert any(str(entry.path).endswith("written by a user") for entry in caught.traceback)


@pytest.mark.parametrize(
    "text", ["np.isnan(np.array([x[0], x[1]]))", "np.linalg.inv(np.array([[x[0]]]))", "np.logaddexp(np.array([x[0]]), np.array([x[1]]))"]
)
def test_what_numpy_cannot_do_with_objects_says_where_they_come_from(text):
    with pytest.raises(TypeError) as caught:
        grad(statement("written by a user", text))(X)
    assert "object array in f, written by a user:3" in caught.value.__notes__[-1] and "np.stack" in caught.value.__notes__[-1]


def test_the_users_own_errors_stay_as_they_are():
    def f(x):
        np.array([x[0], x[1]])
        raise ValueError("negative rate")

    with pytest.raises(ValueError, match="negative rate") as caught:
        grad(f)(X)
    assert not getattr(caught.value, "__notes__", ())

    @dataclasses.dataclass(frozen=True)
    class Unchangeable(Exception):
        rate: float

    def g(x):
        raise Unchangeable(2.0)

    with pytest.raises(Unchangeable):
        grad(lambda x: gradient(g)(x)[0])(X)


# --- installed packages -------------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that makes a module of an installed package, with compiled code or without."""

    def make(name, source, compiled):
        folder = tmp_path / "site-packages" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(f"from ._parts import *\n{'from . import _c' if compiled else ''}\n")
        (folder / "_parts.py").write_text(source)
        if compiled:
            module = types.ModuleType(f"{name}._c")
            module.__file__ = str(folder / "_c.cpython-311-x86_64-linux-gnu.so")
            monkeypatch.setitem(sys.modules, f"{name}._c", module)
        monkeypatch.syspath_prepend(tmp_path / "site-packages")
        return __import__(name)

    yield make
    for name in [name for name in sys.modules if name.split(".")[0].startswith("installed_")]:
        del sys.modules[name]


SOURCE = """
import numpy as np

def solve(x):
    return prepare(x)

def prepare(x):
    return np.asarray(x) * 2.0

def number(x):
    return float(x[0])

def sine(x):
    return np.linalg.LinAlgError(np.left_shift(x, 1))

class Model:
    def __init__(self, x):
        self.x = np.array([x[0], x[1]])

class Matrix:
    def __init__(self, x):
        self.x = np.array([x[0], x[1]], float)

def refuses(x):
    x = np.asarray(x)
    if x.dtype.kind != "f":
        raise ValueError("object arrays are not supported")

def positive(x):
    if np.any(np.asarray(x) < 0.0):
        raise ValueError("x must be positive")
"""


@both
def test_a_conversion_inside_a_package_with_compiled_code_names_what_the_user_called(installed, differentiate):
    package = installed("installed_c", SOURCE, True)
    for name in ("number", "Matrix", "refuses"):
        with pytest.raises(TypeError) as caught:
            differentiate(lambda x, name=name: np.sum(getattr(package, name)(x)))(X)
        text = str(caught.value)
        assert text.startswith(f"installed_c.{name} asks a traced ") and f"called in <lambda>, {__file__}:" in text
        assert all(way in text for way in ("dualad.primitive", "dualad.implicit", "dualad.stop_gradient"))
    assert caught.value.__notes__ == ["its own message: object arrays are not supported"]
    with pytest.raises(ValueError, match="positive") as caught:  # which object arrays have nothing to do with
        differentiate(lambda x: np.sum(package.positive(-x)))(X)
    assert "dualad.primitive" in "".join(caught.value.__notes__)
    np.testing.assert_array_equal(differentiate(lambda x: np.sum(package.solve(x)))(X), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(differentiate(lambda x: np.sum(package.Model(x).x))(X), [1.0, 1.0, 0.0])


SCIPY = {
    "special.logsumexp": (X,),
    "special.log_softmax": (X,),
    "linalg.solve_triangular": (np.triu(np.outer(X, X)) + np.eye(3), X),
    "linalg.solve": (np.outer(X, X) + np.eye(3), X),
    "linalg.det": (np.outer(X, X) + np.eye(3),),
    "spatial.distance.cdist": (np.outer(X, X), np.outer(X, X)[:2] + 0.3),
}


@pytest.mark.parametrize("name", SCIPY)
def test_functions_of_scipy_are_refused_with_another_spelling(name):
    package, _, function = name.rpartition(".")
    theirs = getattr(pytest.importorskip(f"scipy.{package}"), function)
    with pytest.raises(TypeError, match=rf"scipy\.{name} asks a traced Dual .*: write |a traced number becomes complex") as caught:
        jvp(lambda x: theirs(x, *SCIPY[name][1:]), SCIPY[name][:1], SCIPY[name][:1])
    if "becomes complex" in str(caught.value):  # SciPy 1.18 multiplies by 1j
        return
    spelling = str(caught.value).rpartition(": write ")[2].split(", or give")[0]
    first, *rest = SCIPY[name]
    names = {"np": np, "dualad": dualad, "axis": 0, "mode": "full", **dict.fromkeys("xya", first), **dict(zip("b", rest, strict=False))}
    ours = eval(spelling, names)
    np.testing.assert_allclose(ours(first, *rest) if callable(ours) else ours, theirs(first, *rest), rtol=1e-12)


@both
def test_a_package_of_python_alone_computes_with_object_arrays(installed, differentiate):
    package = installed("installed_python", SOURCE, False)
    assert differentiate(lambda x: np.sum(package.solve(x)))(X).tolist() == [2.0] * 3
    with pytest.raises(TypeError, match=r"^installed_python\.number asks a traced .* for float\(\)") as caught:
        differentiate(lambda x: package.number(x))(X)
    assert "let its code keep derivatives (`with dualad.adapt(installed_python):`)" in str(caught.value)


@both
def test_the_package_that_asks_is_told_of_inside_another_that_is_adapted(installed, differentiate):
    inner = installed("installed_inner", "def number(x): return float(x[0])", False)
    outer = installed("installed_outer", "from installed_inner import number\ndef twice(x): return 2 * number(x)", False)
    with dualad.adapt(outer), pytest.raises(TypeError, match=r"^installed_outer\.twice asks a traced .*, in installed_inner\.number, "):
        differentiate(outer.twice)(X)
    with dualad.adapt(outer, inner):
        np.testing.assert_array_equal(differentiate(outer.twice)(X), [2.0, 0.0, 0.0])


def test_any_error_inside_a_package_names_the_users_line(installed):
    package = installed("installed_errors", SOURCE, False)
    with pytest.raises(TypeError, match="integers and bits") as caught:
        grad(lambda x: package.sine(x))(X)
    assert caught.value.__notes__[-1].startswith(f"raised inside installed_errors.sine, called in <lambda>, {__file__}:")


@both
def test_compiled_code_that_goes_on_after_a_refusal(differentiate):
    """SciPy's brentq calls on with our error pending; Python's next look at an attribute fails where its cache is empty."""
    optimize = pytest.importorskip("scipy.optimize")

    def distance(p, x):
        Handle.forgotten = None
        del Handle.forgotten
        return p - x[0]

    with pytest.raises(TypeError, match=r"scipy\.optimize\.brentq asks a traced "):
        differentiate(lambda x: optimize.brentq(lambda p: distance(p, x), 0.0, 10.0))(X)


@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        ("scipy.fft", "scipy.fft.fft", lambda m, x: m.fft(x)),
        ("scipy.linalg", "scipy.linalg.solve", lambda m, x: m.solve(np.eye(3), x)),
        ("scipy.optimize", "scipy.optimize.brentq", lambda m, x: m.brentq(lambda p: p - x[0], 0.0, 10.0)),
        ("scipy.optimize", "scipy.optimize.root", lambda m, x: m.root(lambda p: p - x[0], [0.0])),
        ("scipy.optimize", "scipy.optimize.minimize", lambda m, x: m.minimize(lambda p: (p[0] - x[0]) ** 2, [0.0])),
        ("scipy.integrate", "scipy.integrate.solve_ivp", lambda m, x: m.solve_ivp(lambda t, y: -y, (0.0, 1.0), x)),
        ("scipy.interpolate", "scipy.interpolate.CubicSpline", lambda m, x: m.CubicSpline(np.arange(3.0), x)),
        ("scipy.signal", "scipy.signal.lfilter", lambda m, x: m.lfilter([1.0], [1.0, 0.5], x)),
        ("scipy.special", "scipy.special.logsumexp", lambda m, x: m.logsumexp(x)),
    ],
)
@both
def test_scipy_names_the_function_that_was_called(module, name, call, differentiate):
    """An old SciPy asks some for an attribute instead of a conversion."""
    module = pytest.importorskip(module)
    with pytest.raises((TypeError, AttributeError)) as caught:
        differentiate(lambda x: call(module, x))(X)
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    if name == "scipy.special.logsumexp" and "a traced number becomes complex" in text:  # SciPy 1.18 multiplies by 1j
        assert "dualad.array" in text
        return
    if "has no 'flags'" in text:  # the old SciPy; the message has a way out of its own
        assert "dualad.primal(x).flags" in text
        return
    if name == "scipy.signal.lfilter" and "returns shape (3,)" in text:  # the old SciPy filters objects, rightly
        np.testing.assert_allclose(differentiate(lambda x: np.sum(call(module, x)))(X), [0.75, 0.5, 1.0])
        return
    assert any(words in text for words in (f"{name} asks a traced ", f"{name} compares traced values", f"raised inside {name}, "))
    assert f"called in <lambda>, {__file__}:" in text and "dualad.implicit" in text


# --- other kinds of arrays ----------------------------------------------------------------------------------------------------


@both
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(
    ("make", "way_out"), [(lambda: np.matrix(np.eye(3)), r"np\.asarray"), (lambda: np.ma.array(X, mask=[True, False, False]), r"\.filled")]
)
def test_matrices_and_masked_arrays_are_refused(make, way_out, differentiate):
    other = make()
    for f in (
        lambda x: np.sum(other * x),
        lambda x: np.sum(x * other),
        lambda x: np.sum(other @ x),
        lambda x: np.sum(other - x[0]),
        lambda x: np.sum(np.multiply(other, x)),
        lambda x: np.sum(np.dot(other, x)),
        lambda x: np.sum(np.concatenate([other.ravel(), x])),
        lambda x: np.sum(np.where(X > 1.0, other, x)),
    ):
        with pytest.raises(TypeError, match=way_out):
            differentiate(f)(X)
    with pytest.raises(TypeError, match=way_out):
        differentiate(np.sum)(other)


class Container:
    """A container as in pandas, xarray, pint: it answers ufuncs and functions, and has operators."""

    def __init__(self, data):
        self.data, self.dtype, self.shape = data, data.dtype, data.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.data, dtype)

    def __array_ufunc__(self, ufunc, method, *args):
        return Container(ufunc(*(arg.data if isinstance(arg, Container) else arg for arg in args)))

    def __array_function__(self, fn, types, args, kwargs):
        return "theirs"

    def __rmul__(self, other):
        return Container(other * self.data)

    def __rpow__(self, other):
        return Container(other**self.data)


@both
def test_containers_that_know_better_go_first(differentiate):
    other = Container(np.array([1.0, 2.0, 3.0]))

    def f(x):
        results = [x * other, x[0] ** other, np.add(x, other), np.add(other, x)]
        assert all(type(result) is Container and isinstance(result.data, Traced) for result in results)
        assert np.concatenate([x, other]) == "theirs"
        with pytest.raises(TypeError, match="unsupported operand"):
            x @ other
        return sum(np.sum(result.data) for result in results)

    expected = differentiate(lambda x: np.sum(x * other.data) + np.sum(x[0] ** other.data) + 2.0 * np.sum(x))(X)
    np.testing.assert_allclose(differentiate(f)(X), expected, rtol=1e-15)
    with pytest.raises(TypeError, match=r"is of type Container, whose units.*np\.asarray"):
        differentiate(np.sum)(other)


def test_no_public_attribute_hands_out_a_plain_number():
    """Other packages take x.value, x.magnitude, ... for the number of a container: a silent zero."""
    own = {"primal", "payload", "tangent", "node", "level", "alias"}
    about = {"shape", "ndim", "size", "dtype", "itemsize", "nbytes", "device", "of_python", "flags"}
    ducks = ["value", "values", "m", "magnitude", "data", "base", "n", "nominal_value", "numpy", "to_numpy", "get", "detach", "array"]
    ducks += ["__array_interface__", "__array_struct__", "__cuda_array_interface__", "__dlpack__", "__buffer__", "__jax_array__"]

    def check(x):
        for name in dir(x):
            if not name.startswith("_") and name not in own | about and (x.ndim > 1 or name != "mT"):
                attribute = getattr(x, name)
                assert callable(attribute) or isinstance(attribute, Traced) or type(attribute) is Flat, name
        assert not [name for name in ducks if hasattr(x, name) or (hasattr(x.flat, name) and name != "base")]
        assert isinstance(x.real, Traced) and isinstance(x.imag, Traced) and all(isinstance(item, Traced) for item in x.flat)
        return x

    for value in (X, 2.0, np.ones((2, 0))):
        jvp(check, (value,), (value,))
        vjp(check, value)
    check(Dual(2.0, 1.0))
