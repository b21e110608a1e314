"""Errors name the function that was called, and what to do."""

import operator
import os
import re
import tempfile
import time
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
#: calls by their error, and what it says
ERRORS = {
    ValueError: {
        "array: the rows differ in shape": lambda: dualad.array([[1.0], [1.0, 2.0]]),
        "Disk: path must be the name of a folder, which holds no zero": lambda: Disk("a\0b"),
        r"Fit: path must .* no zero byte, got 'a\\x00b'": lambda: Fit("a\0b"),
        r"array: the rows have the shapes \(2,\), \(1,\)": lambda: grad(lambda x: np.sum(dualad.array([x, x[:1]])))(X),
        "explain_nan: a tangent has shape": lambda: dualad.explain_nan(np.sin, X, tangents=(np.ones(3),)),
        r"hvp: v has shape \(3,\), x \(2,\): they must be equal": lambda: checkpoint.hvp(np.sum, X, np.ones(3)),
        "hessian: argnums names argument 3": lambda: checkpoint.hessian(np.sum, argnums=3)(X),
        "jit: cache_size is 0": lambda: dualad.jit(np.sin, cache_size=0),
        "jit: static_argnames names 'm', which is no": lambda: dualad.jit(lambda x, n: x, static_argnames="m"),
        "differences: there are 0 directions for 1 leaves": lambda: differences(lambda leaves: leaves, [1.0], []),
        "profile: memory: cannot read '2 QB'": lambda: checkpoint.profile(abs, 1.0, steps=2, memory="2 QB"),
    },
    TypeError: {
        r"jacobian: executor is the class ThreadPoolExecutor: give an executor, ThreadPoolExecutor\(\)": lambda: dualad.jacobian(
            np.sin, executor=ThreadPoolExecutor
        )(X),
        "map_gradients: executor is the class ProcessPoolExecutor": lambda: checkpoint.map_gradients(
            np.sum, [X], executor=ProcessPoolExecutor
        ),
        "Disk: path must be the name of a folder, got 3": lambda: Disk(3),
        "jit: str returns: str made of a traced value, .*return the number, and make the text of it": lambda: dualad.jit(str)(2.0),
        r"chain: step 0 returned a new Plain at state\. A Plain is no registered pytree.*register Plain": lambda: grad(
            lambda x: chain(lambda k, s, x: Plain(s.a * x), Plain(1.0), x, steps=3).a
        )(2.0),
        "map_gradients: xs is int 3: give the members": lambda: checkpoint.map_gradients(np.sum, 3),
        "map_gradients: xs is dict": lambda: checkpoint.map_gradients(np.sum, {"a": X}),
        "hvp: the first argument is int 3, not a function": lambda: checkpoint.hvp(3, X, X),
        "hvp: f returns shape": lambda: checkpoint.hvp(np.sin, X, X),
        "hvp: x and v differ in structure": lambda: checkpoint.hvp(np.sum, X, [X]),
        "hvp: v is complex and x real": lambda: checkpoint.hvp(np.sum, X, 1j * X),
        r"hvp: v\[0\]\[1\] is 'a'": lambda: checkpoint.hvp(np.sum, [X], [[X, "a"]]),
        r"hessian: the argument\['a'\] is 'b', which is not": lambda: dualad.hessian(np.sum)({"a": "b"}),
        "hessian: the argument is 'a', which is not": lambda: checkpoint.hessian(np.sum)("a"),
        "derivative: x is None, which holds no number": lambda: dualad.derivative(np.sin)(None),
        "vjp: argument 1 of those differentiated is 'a'": lambda: checkpoint.vjp(np.add, 1.0, "a"),
        "jit: static_argnums is 'x': give positions": lambda: dualad.jit(np.sin, static_argnums="x"),
        "profile: the first argument is int 3, not a function": lambda: checkpoint.profile(3, 1.0, steps=2),
        "profile: storage must be a Storage": lambda: checkpoint.profile(abs, 1.0, steps=2, storage=3),
        "profile: pull must be a function, got 3": lambda: checkpoint.profile(abs, 1.0, steps=2, pull=3),
        "grad: .* 3.0, not a function: give the function itself, not what": lambda: grad(3.0),
        "jvp: primals and tangents differ.*: 1 and 2 arguments": lambda: dualad.jvp(np.sin, (X,), (X, X)),
        r"chain: step is called as step\(k, state\), but numpy.sin would write": lambda: chain(np.sin, X, steps=3),
        "numpy.exp would write .* give a function that calls it": lambda: chain([HALF, np.exp], X),
        "sweep: step returned None; return the": lambda: reverse(NONE, PULL, 1.0, 1.0, steps=3),
        "sweep: pull .* the new cotangent": lambda: reverse(HALF, NONE, 1.0, 1.0, steps=3),
        "sweep: step .* numpy.sin would write": lambda: reverse(np.sin, PULL, X, X, steps=3),
        r"masked array together with a traced value: .*dualad.primal\(x\) to plot it": lambda: grad(
            lambda x: np.sum(np.ma.array(np.ones(2)) * x)
        )(X),
        r"chain: until must be a function, called as until\(k, state\)": lambda: chain(HALF, 1.0, until=5),
        r"chain: step 0 returned float64 .*, or return it as it was, with .astype\('float32'\)": lambda: chain(
            lambda k, x: x * np.float64(0.5), X.astype(np.float32), steps=3
        ),
        "Return the structure of the initial state, or give outputs=True, if the second part is what each step puts out": lambda: chain(
            lambda k, x: (0.5 * x, x), 1.0, steps=3
        ),
        r"sweep: pull must be .* pull\(k, x, g\), got None": lambda: reverse(HALF, None, 1.0, 1.0, steps=3),
        r"sweep: .* as pull\(k, x, g\), but": lambda: reverse(HALF, HALF, 1.0, 1.0, steps=3),
        r"sweep: step is called as step\(k, x\), but <lambda>\(x\) does not take that": lambda: reverse(
            lambda x: x, PULL, 1.0, 1.0, steps=3
        ),
        "plot_schedule: schedule must be a Schedule such as": lambda: checkpoint.plot_schedule("ctz", 10),
    },
    RuntimeError: {
        r"jacobian: the dask client that executor= belongs to is closed.*make a new client, and give its client\.get_executor\(": lambda: (
            dualad.jacobian(np.sin, executor=Closed())(X)
        ),
    },
    np.linalg.LinAlgError: {
        "implicit: the Jacobian of the residual by x is singular": lambda: dualad.derivative(FLAT)(1.0),
    },
    OSError: {
        "Disk: this folder cannot be made .*; give another path: '.*test_errors.py'": lambda: grad(
            lambda x: chain(HALF, x, steps=9, storage=Disk(__file__, resume=True))
        )(1.0),
        "Fit: this folder cannot be made .*; give another path": lambda: Fit(__file__)(grad(np.sum)),
    },
}


LISTS = {
    "grad": lambda: grad(lambda x: np.sum(x**2))([1.0, 2.0]),
    "jvp": lambda: dualad.jvp(lambda x: x + 1.0, ([1.0, 2.0],), ([1.0, 0.0],)),
    "gradient": lambda: dualad.gradient(lambda x: np.sum(x[:, None]))([1.0, 2.0]),
    "chain": lambda: chain(HALF, [1.0, 2.0], steps=2),
    "grad of a chain": lambda: grad(lambda x: chain(HALF, x, steps=2)[0])([1.0, 2.0]),
    "compiled": lambda: grad(lambda x: chain(dualad.jit(HALF), [x, x], steps=2)[0])(1.0),
    "another error of a list": lambda: grad(lambda x: len(x[0]))([1.0, 2.0]),
}
DRAWN = "a generator made of a traced index"
LISTS[DRAWN] = lambda: chain(dualad.jit(lambda k, x: x + np.random.default_rng(k).normal()), 1.0, steps=3)


@pytest.mark.parametrize("name", LISTS)
def test_what_a_list_does_not_do_and_what_is_drawn_is_explained_once(name):
    with pytest.raises(TypeError) as caught:
        LISTS[name]()
    notes = getattr(caught.value, "__notes__", [])
    assert [note for note in notes if "list" in note] == [LIST_NOTE] * (name not in ("another error of a list", DRAWN))
    assert any("pass them (inputs= of a chain" in note for note in notes) == (name == DRAWN)


CALLS = [(words, kind, call) for kind, calls in ERRORS.items() for words, call in calls.items()]


@for_each("words, kind, call", CALLS, lambda case: case[0].partition(":")[0])
def test_errors_name_the_function_that_was_called(words, kind, call):
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
    "in place": lambda: grad(lambda x: np.sum(operator.iadd(np.zeros(2), x)))(X),
    "object array": lambda: grad(lambda x: np.linalg.norm(np.linalg.inv(np.array([[x[0], x[1]], [0.0, x[1]]]))))(X),
    "no derivative rule": lambda: grad(unruled)(1.0),
    "no derivative": lambda: dualad.jacobian(np.unpackbits)(X),
    "compiled code": lambda: dualad.jacobian(of_scipy)(X),
    "searches": lambda: dualad.derivative(searched)(1.0),
    "after the derivative call": outlived,
    "a step is called as": lambda: chain(lambda x, rate: x * rate, 1.0, 0.5, steps=3),
    "which was": lambda: chain(lambda k, x: 0.5 * x, 1, steps=3),
    "closes over": lambda: grad(lambda x: chain(lambda k, s: s * x, 1.0, steps=3))(1.0),
    "is not reproducible": lambda: grad(lambda x: chain(drawn, x, steps=3))(1.0),
    "reverse over reverse": lambda: grad(grad(lambda x: chain(lambda k, s: s * s, x, steps=3)))(1.0),
    "traced value": lambda: dualad.jit(lambda x: 2.0 * float(x))(1.0),
    "traced mask": lambda: dualad.jit(lambda x: x[x > 1.0])(X),
    "branch": many_ways,
    "stale": became_stale,
    "random numbers": lambda: dualad.jit(lambda x: x * np.random.rand())(1.0),  # noqa: NPY002
    "two traces": lambda: dualad.jit(lambda x: x * time.perf_counter())(1.0),
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
