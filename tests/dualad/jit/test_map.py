"""map of compiled functions: the bits of single calls for any number of members and threads, trees, errors, derivatives, both backends."""

import warnings
from typing import NamedTuple

import numpy as np
import optree
import pytest
from comparing import close, same

from checkpoint import chain, grad, value_and_grad
from dualad import jit, jvp, primitive
from dualad.codegen.member_kernels import MemberKernels
from dualad.jit import compiled as kernels
from dualad.jit.compiled import BACKENDS, compile_llvm, compile_members
from dualad.rules import elementwise

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def compiler(no_compiler, monkeypatch):
    """Single calls are machine code here, too: their bits are compared."""
    monkeypatch.setitem(BACKENDS, "llvm", compile_llvm)


def lorenz(k, state, s, r):
    x, y, z = state
    return x + 0.01 * s * (y - x), y + 0.01 * (x * (r - z) - y), z + 0.01 * (x * y - 2.5 * z)


def final(v, s, r=28.0):
    x, y, z = chain(lorenz, (v[0], v[1], v[2]), s, r, steps=50)
    return x * y + z


def elementary(x, a):
    return np.sin(x) * np.exp(-x * a) + np.log1p(x * x) / np.tanh(a + 2.0), np.where(x > a, x, -x), x**3


def relaxed(field, f):
    for _ in range(8):
        field = field + 0.2 * (np.roll(field, 1, 0) + np.roll(field, -1, 0) - 2.0 * field) + f
    return np.sum(field**2), field


def of_matrices(a, b):
    return np.linalg.solve(a, b), np.sum(a @ b), np.sort(b)


def tree(p, scale):
    return {"a": p["x"] * scale, "b": [np.sum(p["y"]["z"]), 3, "text"]}


FUNCTIONS = {
    "a chain of numbers": (final, ((3,), ()), (0, 1)),
    "its gradient": (value_and_grad(final, argnums=(0, 1)), ((3,), ()), (0, 1)),
    "elementary functions": (elementary, ((), ()), (0, 1)),
    "elementary functions of arrays": (elementary, ((17,), ()), (0,)),
    "a grid": (relaxed, ((40,), ()), (0, 1)),
    "its gradient to all": (grad(lambda x, f: relaxed(x, f)[0], argnums=(0, 1)), ((40,), ()), (0, 1)),
    "matrices": (of_matrices, ((4, 4), (4,)), (0, 1)),
    "long sums": (lambda x, y: (np.sum(np.sin(x) * y), np.mean(x)), ((300,), ()), (0, 1)),
}


def members_of(shapes, over, count, dtype=float):
    return [(0.5 + RNG.random((count, *shape) if i in over else shape)).astype(dtype)[()] for i, shape in enumerate(shapes)]


def one_by_one(f, args, over, count):
    results = [f(*(x[k] if i in over else x for i, x in enumerate(args))) for k in range(count)]
    return optree.tree_map(lambda *leaves: np.stack(leaves), *results)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_results_have_the_bits_of_single_calls(name, dtype):
    f, shapes, over = FUNCTIONS[name]
    for options in ({}, {"threads": 1}, {"threads": 2}, {"backend": "numpy"}):
        compiled = jit(f, verify=False, **options)
        for count in (1, 3, 70) if options != {"backend": "numpy"} else (3,):
            args = members_of(shapes, over, count, dtype)
            same(compiled.map(*args, over=over), one_by_one(compiled, args, over, count))


def test_members_of_rows_that_are_copied_and_that_are_not():
    f, shapes, over = FUNCTIONS["elementary functions"]
    args = members_of(shapes, over, 64 * 9 + 1)
    for threads in (None, 1, 2):
        compiled = jit(f, threads=threads, verify=False)
        same(compiled.map(*args, over=over), one_by_one(compiled, args, over, 64 * 9 + 1))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_loop_over_members_is_compiled(name):
    f, shapes, over = FUNCTIONS[name]
    compiled = jit(f)
    compiled.map(*members_of(shapes, over, 5), over=over)
    (entry,) = compiled.entries.values()
    (kernels,) = (made for key, made in entry.compiled.derived.items() if key[0] == "members")
    if name == "matrices":
        return  # by the library, if it must be
    assert isinstance(kernels, MemberKernels) and entry.compiled.made is None  # no single call
    assert (kernels.beside > 1) == (name in ("a chain of numbers", "its gradient", "elementary functions"))


def test_trees_arguments_that_are_the_same_and_what_is_no_number():
    p = {"x": np.arange(6.0).reshape(3, 2), "y": {"z": np.arange(12).reshape(3, 4)}, "name": "wave", "flag": True}
    for backend in BACKENDS:
        got = jit(tree, backend=backend).map(p, 2.0)
        same(got["a"], p["x"] * 2.0)
        same(got["b"][:2], [p["y"]["z"].sum(1), np.array([3, 3, 3])])
        assert got["b"][2] == "text"
    got = jit(tree).map(p, scale=np.array([1.0, 2.0, 3.0]), over=("p", "scale"))
    same(got["a"], p["x"] * np.array([[1.0], [2.0], [3.0]]))
    same(jit(tree).map(p, np.array([1.0, 2.0, 3.0]), over=(0, "scale"))["a"], got["a"])
    same(jit(tree).map(p=p, scale=2.0)["a"], p["x"] * 2.0)
    same(jit(lambda x, n: x**n, static_argnums=1).map(np.arange(4.0), 3), np.arange(4.0) ** 3)


def test_layouts_and_dtypes():
    f = jit(lambda x, z: (x * 2, z.real + x[0], x > 3, np.conj(z)))
    x, z = RNG.integers(0, 9, (5, 3)), RNG.random(10)[::2] + 1j
    for a in (x, np.asfortranarray(x), x.astype(">i8"), x.astype(np.int8), x[::-1]):
        same(f.map(a, z, over=(0, 1)), one_by_one(f.f, (a.astype(a.dtype.newbyteorder("=")), z), (0, 1), 5))


def test_no_members():
    value, gradient = jit(value_and_grad(final)).map(np.zeros((0, 3)), 10.0)
    assert value.shape == (0,) and gradient.shape == (0, 3) and value.dtype == float


def test_errors_name_the_argument_and_the_numbers():
    f = jit(lambda x, y: x["a"] + y, verify=False)
    f.f.__name__ = f.__name__ = "f"
    with pytest.raises(ValueError, match=r"jit: f.map: argument 0\['a'\] has 3 members along its first axis, argument 1 has 4"):
        f.map({"a": np.zeros(3)}, np.zeros(4), over=(0, 1))
    with pytest.raises(TypeError, match=r"argument 0\['a'\] is a float without an axis of members: stack"):
        f.map({"a": 1.0}, np.zeros(4))
    with pytest.raises(TypeError, match="there is no array among the arguments over=0"):
        f.map({}, 1.0)
    with pytest.raises(TypeError, match="over names the argument 2, which is not given"):
        f.map({"a": np.zeros(3)}, 1.0, over=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_names_the_member(backend):
    f = jit(lambda x, i: x[i], backend=backend, verify=False)
    with pytest.raises(IndexError) as caught:
        f.map(np.ones((5, 3)), np.array([0, 1, 2, 7, 8]), over=(0, 1))
    assert any("map: in member 3 of 5" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("backend", BACKENDS)
def test_members_take_different_paths(backend):
    def f(x):
        if x[0] > 2.0:
            return x * 2.0
        if x[1] < 0.0:
            raise ValueError(f"no solution below {x[1] * 0 + 0}")
        return np.sin(x)

    xs = np.array([[1.0, 1.0], [3.0, 1.0], [0.5, 2.0], [4.0, 2.0]])
    compiled = jit(f, backend=backend)
    same(compiled.map(xs), jit(lambda x: np.where(x[0] > 2.0, x * 2.0, np.sin(x)), backend=backend).map(xs))
    xs[2, 1] = -1.0
    with pytest.raises(ValueError, match="no solution below") as caught:
        compiled.map(xs)
    assert any("map: in member 2 of 4" in note for note in caught.value.__notes__)


@pytest.mark.skipif("llvm" not in BACKENDS, reason="llvmlite is not installed")
def test_the_paths_of_all_members_are_learnt_before_their_loop_is_compiled_again(monkeypatch):
    made = []
    monkeypatch.setattr(kernels, "compile_members", lambda compiled, *rest: made.append(compiled) or compile_members(compiled, *rest))
    f = jit(lambda x: next((x * k for k in range(1, 5) if x < k), -x))
    x = np.arange(8.0)
    same(f.map(x), np.array([x[0], x[1] * 2.0, x[2] * 3.0, x[3] * 4.0, *-x[4:]]))
    assert len(made) == 2 and f.traces == 5


def test_a_python_integer_that_grows_is_exact():
    f = jit(lambda x, n: x * 2 + 0 * n, verify=False)
    assert f.map(np.arange(3.0), 2**70).tolist() == [0.0, 2.0, 4.0]


def test_members_do_not_hear_of_each_other():
    f = jit(lambda x: 1.0 / x + np.log(x), verify=False)
    x = np.array([1.0, 0.0, -1.0, np.nan, np.inf, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = f.map(x)
    same(got, one_by_one(f, (x,), (0,), 6))


class State(NamedTuple):
    x: np.ndarray
    v: np.ndarray


def test_what_the_function_reads_is_watched_and_compared():
    scale = {"value": 2.0}
    f = jit(lambda s: State(s.x * scale["value"], s.v))
    state = State(np.arange(3.0), np.ones(3))
    assert f.map(state).x.tolist() == [0.0, 2.0, 4.0]
    scale["value"] = 3.0
    got = f.map(state)
    assert type(got) is State and got.x.tolist() == [0.0, 3.0, 6.0]
    always = jit(lambda x: x * x, verify=True)
    always.map(np.arange(4.0))
    assert always.verifications == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_through_all_members(backend):
    f = jit(lambda x, p: np.sin(x[0] * p) * x[1], backend=backend)
    xs, weights = RNG.random((6, 2)), RNG.random(6)
    whole = lambda xs, p: np.sum(weights * f.map(xs, p))
    expected = lambda xs, p: np.sum(weights * (np.sin(xs[:, 0] * p) * xs[:, 1]))
    for made in (grad(whole, argnums=(0, 1)), jit(grad(whole, argnums=(0, 1)), backend=backend)):
        close(made(xs, 0.7), grad(expected, argnums=(0, 1))(xs, 0.7), rtol=1e-13)
    t = jvp(lambda p: f.map(xs, p), (0.7,), (1.0,))[1]
    np.testing.assert_allclose(t, jvp(lambda p: np.sin(xs[:, 0] * p) * xs[:, 1], (0.7,), (1.0,))[1], rtol=1e-13)
    inner = jit(lambda xs: f.map(xs, 0.7) * 2.0, backend=backend)
    same(inner(xs), f.map(xs, 0.7) * 2.0)
    assert "loop of 6 turns" in inner.program(xs)


def test_what_members_print_is_printed_once_for_each(capsys):
    def f(x):
        if x[0] > 2.0:
            print("large", x[1])
        return x.sum()

    xs, total = np.arange(8.0).reshape(4, 2), jit(f, verify=False)
    for _ in range(2):
        np.testing.assert_array_equal(total.map(xs), xs.sum(axis=1))
        assert capsys.readouterr().out == "large 5.0\nlarge 7.0\n"


def test_members_that_call_python_are_interrupted_in_it():
    @primitive
    def stopped(x):
        if x[0] > 0.5:
            raise KeyboardInterrupt
        return x + 0.1

    elementwise(stopped, lambda ans, x: np.ones_like(x))
    f = jit(lambda x: chain(lambda k, x: stopped(x), x, steps=3), threads=2, verify=False)
    xs = np.zeros((12, 9))
    for _ in range(2):
        np.testing.assert_allclose(f.map(xs), 0.3)
        with pytest.raises(KeyboardInterrupt):
            f.map(xs + np.arange(12.0)[:, None] / 14.0)
