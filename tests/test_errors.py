"""Errors name the function that was called, and what to do."""

import os
import re
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from in_groups import for_each

import checkpoint
import dualad
from checkpoint import Disk, Fit, chain, grad
from checkpoint.sweep import reverse
from dualad.forward.seeding import LIST_NOTE
from dualad.testing import differences

X = np.array([1.0, 2.0])


@dataclass
class Plain:
    a: float


class Closed:
    """As the executor of a dask client that is closed."""

    _client = SimpleNamespace(status="closed", ncores=lambda: 1 / 0)
    submit = shutdown = None


HALF, PULL, NONE = lambda k, x: 0.5 * x, lambda k, x, g: 0.5 * g, lambda *given: None
FLAT = dualad.implicit(lambda x, p: 0.0 * x, lambda p: np.zeros(2))
ERRORS = {
    "array": (lambda: dualad.array([[1.0], [1.0, 2.0]]), ValueError, "array: the rows differ in shape"),
    "executor is a class": (
        lambda: dualad.jacobian(np.sin, executor=ThreadPoolExecutor)(X),
        TypeError,
        r"jacobian: executor is the class ThreadPoolExecutor: give an executor, ThreadPoolExecutor\(\)",
    ),
    "map_gradients by a class": (
        lambda: checkpoint.map_gradients(np.sum, [X], executor=ProcessPoolExecutor),
        TypeError,
        "map_gradients: executor is the class ProcessPoolExecutor",
    ),
    "executor of a closed client": (
        lambda: dualad.jacobian(np.sin, executor=Closed())(X),
        RuntimeError,
        r"jacobian: the dask client that executor= belongs to is closed.*make a new client, and give its client\.get_executor\(\)",
    ),
    "Disk of a path with a zero byte": (lambda: Disk("a\0b"), ValueError, "Disk: path must be the name of a folder, which holds no zero"),
    "Fit of a path with a zero byte": (lambda: Fit("a\0b"), ValueError, r"Fit: path must .* no zero byte, got 'a\\x00b'"),
    "Disk of a number": (lambda: Disk(3), TypeError, "Disk: path must be the name of a folder, got 3"),
    "a text of a traced value": (
        lambda: dualad.jit(str)(2.0),
        TypeError,
        "jit: str returns: str made of a traced value, .*return the number, and make the text of it",
    ),
    "a state that is no container": (
        lambda: grad(lambda x: chain(lambda k, s, x: Plain(s.a * x), Plain(1.0), x, steps=3).a)(2.0),
        TypeError,
        r"chain: step 0 returned a new Plain at state\. A Plain is not known as a container.*register Plain",
    ),
    "map_gradients of a number": (lambda: checkpoint.map_gradients(np.sum, 3), TypeError, "map_gradients: xs is int 3: give the members"),
    "map_gradients of a dict": (lambda: checkpoint.map_gradients(np.sum, {"a": X}), TypeError, "map_gradients: xs is dict"),
    "hvp of no function": (lambda: checkpoint.hvp(3, X, X), TypeError, "hvp: the first argument is int 3, not a function"),
    "array of traced": (
        lambda: grad(lambda x: np.sum(dualad.array([x, x[:1]])))(X),
        ValueError,
        r"array: the rows have the shapes \(2,\), \(1,\)",
    ),
    "explain_nan": (lambda: dualad.explain_nan(np.sin, X, tangents=(np.ones(3),)), ValueError, "explain_nan: a tangent has shape"),
    "hessian": (lambda: dualad.hessian(np.sin)(X), TypeError, "hessian: f returns shape"),
    "checkpoint.hessian": (lambda: checkpoint.hessian(np.sin)(X), TypeError, "hessian: f returns shape"),
    "hvp": (lambda: checkpoint.hvp(np.sin, X, X), TypeError, "hvp: f returns shape"),
    "hvp of another direction": (
        lambda: checkpoint.hvp(np.sum, X, np.ones(3)),
        ValueError,
        r"hvp: v has shape \(3,\), x \(2,\): they must be equal",
    ),
    "hvp of another structure": (lambda: checkpoint.hvp(np.sum, X, [X]), TypeError, "hvp: x and v differ in structure"),
    "hvp of a complex direction": (lambda: checkpoint.hvp(np.sum, X, 1j * X), TypeError, "hvp: v is complex and x real"),
    "hvp of a text": (lambda: checkpoint.hvp(np.sum, [X], [[X, "a"]]), TypeError, r"hvp: v\[0\]\[1\] is 'a'"),
    "hessian by a text": (lambda: dualad.hessian(np.sum)({"a": "b"}), TypeError, r"hessian: the argument\['a'\] is 'b', which is not"),
    "checkpoint.hessian by a text": (lambda: checkpoint.hessian(np.sum)("a"), TypeError, "hessian: the argument is 'a', which is not"),
    "hessian by a third": (lambda: checkpoint.hessian(np.sum, argnums=3)(X), ValueError, "hessian: argnums names argument 3"),
    "derivative at nothing": (lambda: dualad.derivative(np.sin)(None), TypeError, "derivative: x is None, which holds no number"),
    "vjp of several": (lambda: checkpoint.vjp(np.add, 1.0, "a"), TypeError, "vjp: argument 1 of those differentiated is 'a'"),
    "implicit": (lambda: dualad.derivative(FLAT)(1.0), np.linalg.LinAlgError, "implicit: the Jacobian of the residual by x is singular"),
    "jit": (lambda: dualad.jit(np.sin, cache_size=0), ValueError, "jit: cache_size is 0"),
    "jit with a name": (lambda: dualad.jit(lambda x, n: x, static_argnames="m"), ValueError, "jit: static_argnames names 'm', which is no"),
    "jit with a position": (lambda: dualad.jit(np.sin, static_argnums="x"), TypeError, "jit: static_argnums is 'x': give positions"),
    "differences": (lambda: differences(lambda leaves: leaves, [1.0], []), ValueError, "differences: there are 0 directions for 1 leaves"),
    "value_and_derivative": (lambda: dualad.value_and_derivative(np.sin)(X), TypeError, "value_and_derivative: .* use value_and_gradient"),
    "profile": (lambda: checkpoint.profile(3, 1.0, steps=2), TypeError, "profile: the first argument is int 3, not a function"),
    "profile with a storage": (lambda: checkpoint.profile(abs, 1.0, steps=2, storage=3), TypeError, "profile: storage must be a Storage"),
    "profile with a limit": (
        lambda: checkpoint.profile(abs, 1.0, steps=2, memory="2 QB"),
        ValueError,
        "profile: memory: cannot read '2 QB'",
    ),
    "profile with a pull": (lambda: checkpoint.profile(abs, 1.0, steps=2, pull=3), TypeError, "profile: pull must be a function, got 3"),
    "chain with a limit": (lambda: chain(max, 1.0, steps=2, memory=[]), TypeError, r"chain: memory: cannot read \[\]; write a number of"),
    "grad of what a function returns": (lambda: grad(3.0), TypeError, "grad: .* 3.0, not a function: give the function itself, not what"),
    "jvp with two tangents": (lambda: dualad.jvp(np.sin, (X,), (X, X)), TypeError, "jvp: primals and tangents differ.*: 1 and 2 arguments"),
    "chain with steps as a param": (lambda: chain(HALF, 1.0, 3), TypeError, "chain: give the number of steps by its name, steps=N"),
    "chain of a ufunc": (
        lambda: chain(np.sin, X, steps=3),
        TypeError,
        r"chain: step is called as step\(k, state\), but numpy.sin would write",
    ),
    "chain of layers of ufuncs": (lambda: chain([HALF, np.exp], X), TypeError, "numpy.exp would write .* give a function that calls it"),
    "sweep with a step without return": (
        lambda: reverse(NONE, PULL, 1.0, 1.0, steps=3),
        TypeError,
        "sweep: step returned None; return the",
    ),
    "sweep with a pull without return": (lambda: reverse(HALF, NONE, 1.0, 1.0, steps=3), TypeError, "sweep: pull .* the new cotangent"),
    "sweep of a ufunc": (lambda: reverse(np.sin, PULL, X, X, steps=3), TypeError, "sweep: step .* numpy.sin would write"),
    "a picture of a traced value": (
        lambda: grad(lambda x: np.sum(np.ma.array(np.ones(2)) * x))(X),
        TypeError,
        r"masked array together with a traced value: .*dualad.primal\(x\) to plot it",
    ),
    "chain until a number": (lambda: chain(HALF, 1.0, until=5), TypeError, r"chain: until must be a function, called as until\(k, state\)"),
    "chain without end": (
        lambda: grad(lambda x: chain(HALF, x, until=lambda k, x: False, max_steps=3))(1.0),
        RuntimeError,
        r"^chain: until\(k, state\) is still not true after max_steps=3",
    ),
    "chain of another precision": (
        lambda: chain(lambda k, x: x * np.float64(0.5), X.astype(np.float32), steps=3),
        TypeError,
        r"chain: step 0 returned float64 .*, or return it as it was, with .astype\('float32'\)",
    ),
    "chain that puts out": (
        lambda: chain(lambda k, x: (0.5 * x, x), 1.0, steps=3),
        TypeError,
        "Return the structure of the initial state, or give outputs=True, if the second part is what each step puts out",
    ),
    "sweep without a pull": (
        lambda: reverse(HALF, None, 1.0, 1.0, steps=3),
        TypeError,
        r"sweep: pull must be .* pull\(k, x, g\), got None",
    ),
    "sweep with a pull of two": (lambda: reverse(HALF, HALF, 1.0, 1.0, steps=3), TypeError, r"sweep: .* as pull\(k, x, g\), but"),
    "sweep with a step of one": (
        lambda: reverse(lambda x: x, PULL, 1.0, 1.0, steps=3),
        TypeError,
        r"sweep: step is called as step\(k, x\), but <lambda>\(x\) does not take that",
    ),
    "Disk in a file": (
        lambda: grad(lambda x: chain(HALF, x, steps=9, storage=Disk(__file__, resume=True)))(1.0),
        OSError,
        "Disk: this folder cannot be made .*; give another path: '.*test_errors.py'",
    ),
    "Fit in a file": (lambda: Fit(__file__)(grad(np.sum)), OSError, "Fit: this folder cannot be made .*; give another path"),
    "plot_schedule": (lambda: checkpoint.plot_schedule("ctz", 10), TypeError, "plot_schedule: schedule must be a Schedule such as"),
    "chain": (lambda: chain(lambda k, x: x, 1.0, steps=3, schedule="ctz"), TypeError, "chain: schedule must be a Schedule such as"),
}


@pytest.mark.parametrize(
    "call",
    [
        lambda: grad(lambda x: np.sum(x**2))([1.0, 2.0]),
        lambda: dualad.jvp(lambda x: x + 1.0, ([1.0, 2.0],), ([1.0, 0.0],)),
        lambda: dualad.gradient(lambda x: np.sum(x[:, None]))([1.0, 2.0]),
        lambda: chain(HALF, [1.0, 2.0], steps=2),
        lambda: grad(lambda x: chain(HALF, x, steps=2)[0])([1.0, 2.0]),
        lambda: grad(lambda x: chain(dualad.jit(HALF), [x, x], steps=2)[0])(1.0),
    ],
)
def test_arithmetic_with_a_list_is_explained_once(call):
    with pytest.raises(TypeError) as caught:
        call()
    assert [note for note in caught.value.__notes__ if "list" in note] == [LIST_NOTE]


def test_a_generator_made_of_a_traced_index_is_explained():
    with pytest.raises(TypeError) as caught:
        chain(dualad.jit(lambda k, x: x + np.random.default_rng(k).normal()), 1.0, steps=3)
    assert any("pass them (inputs= of a chain" in note for note in caught.value.__notes__)


def test_other_errors_of_lists_are_not():
    with pytest.raises(TypeError) as caught:
        grad(lambda x: len(x[0]))([1.0, 2.0])
    assert LIST_NOTE not in getattr(caught.value, "__notes__", ())


@for_each("name", ERRORS)
def test_errors_name_the_function_that_was_called(name):
    call, kind, words = ERRORS[name]
    with pytest.raises(kind, match=words):
        call()


# --- the page of errors -----------------------------------------------------------------------------------------------------


def written(x):
    a = np.zeros(2)
    a[0] = x[0]
    return a


@dualad.primitive
def unruled(x):
    return np.asarray(x)


def outlived():
    kept = []
    grad(lambda x: kept.append(x) or x**2)(1.0)
    return kept[0] + 1.0


RANDOM = np.random.default_rng(0)


def drawn(k, x):
    return x * RANDOM.random()


def of_scipy(x):
    return pytest.importorskip("scipy.linalg").expm(np.diag(x))


def searched(a):
    return pytest.importorskip("scipy.optimize").golden(lambda x: (x - a) ** 2)


def became_stale():
    f = dualad.jit(lambda x: x * float(os.environ.get("DUALAD_SHOWN", "1")), verify=True)
    f(1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALAD_SHOWN", "2")
        f(1.0)


def many_ways():
    f = dualad.jit(with_bits, backend="numpy")
    for n in range(17):
        f(float(n))


def with_bits(x):
    y = 0.5 * x
    if x % 2.0 >= 1.0:
        y = y + 1.0
    if x % 4.0 >= 2.0:
        y = np.sin(y)
    if x % 8.0 >= 4.0:
        y = y * y
    if x % 16.0 >= 8.0:
        y = np.exp(-y)
    return y if x < 16.0 else -y


def changed_fit():
    with tempfile.TemporaryDirectory() as folder:
        for rate in (1.0, 2.0):
            Fit(folder)(lambda x, rate=rate: rate * x, name="f")(1.0)


def filled_in_place(x):
    np.asarray(x)[0] = 1.0
    return np.sum(x)


SHOWN = {
    "grad: f returns": lambda: grad(lambda x: x**2)(np.ones(3)),
    "float()": lambda: dualad.gradient(lambda x: float(x[0]))(X),
    "cannot be written": lambda: dualad.jacobian(written)(X),
    "object array": lambda: grad(lambda x: np.linalg.norm(np.linalg.inv(np.array([[x[0], x[1]], [0.0, x[1]]]))))(X),
    "no derivative rule": lambda: grad(unruled)(1.0),
    "no derivative": lambda: dualad.jacobian(np.unpackbits)(X),
    "compiled code": lambda: dualad.jacobian(of_scipy)(X),
    "searches": lambda: dualad.derivative(searched)(1.0),
    "after the derivative call": outlived,
    "a step is called as": lambda: chain(lambda x, rate: x * rate, 1.0, 0.5, steps=3),
    "which was": lambda: chain(lambda k, x: 0.5 * x, 1, steps=3),
    "closes over": lambda: grad(lambda x: chain(lambda k, s: s * x, 1.0, steps=3))(1.0),
    "evaluated again": lambda: grad(lambda x: chain(drawn, x, steps=3))(1.0),
    "reverse over reverse": lambda: grad(grad(lambda x: chain(lambda k, s: s * s, x, steps=3)))(1.0),
    "traced value": lambda: dualad.jit(lambda x: 2.0 * float(x))(1.0),
    "traced mask": lambda: dualad.jit(lambda x: x[x > 1.0])(X),
    "branch": many_ways,
    "stale": became_stale,
    "random numbers": lambda: dualad.jit(lambda x: x * np.random.default_rng().normal())(1.0),
    "another function": changed_fit,
    "read-only": lambda: grad(filled_in_place)(X),
}
ROWS = re.findall(r"^\| `(.+?)` \|", (Path(__file__).parents[1] / "docs/pages/errors.md").read_text(), re.MULTILINE)


def test_the_page_has_a_row_for_each_of_these():
    assert len(ROWS) == len(SHOWN)


@pytest.mark.parametrize(("row", "name"), list(zip(ROWS, SHOWN, strict=False)), ids=list(SHOWN))
def test_messages_are_those_that_the_page_shows(row, name):
    with pytest.raises((TypeError, RuntimeError, ValueError, UserWarning)) as caught:
        SHOWN[name]()
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert re.search(".*".join(map(re.escape, row.split("..."))), told), told
