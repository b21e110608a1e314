"""flatten and register_dataclass: pytrees as vectors, and dataclasses as pytrees."""

from collections import namedtuple
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoint as ck
import dualad

Point = namedtuple("Point", "x y")
TREES = [
    3.0,
    np.float32(2.0),
    np.array(1.5),
    np.arange(6.0).reshape(2, 3).T,
    {"b": np.ones(2), "a": (1.0, [2.0, np.zeros((0, 3))])},
    Point(np.float64(1.0), np.arange(3.0)),
    (np.ones(2, np.float32), np.ones(2, np.float16)),
    (np.ones(2) + 1j, np.arange(2.0), 0.5, 1j),
    (1.0, 3, "name", None, np.arange(3), True),
    (),
]


def same(a, b):
    return type(a) is type(b) and np.array_equal(a, b) and np.shape(a) == np.shape(b) and getattr(a, "dtype", 0) == getattr(b, "dtype", 0)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_there_and_back(tree):
    vector, unflatten = dualad.flatten(tree)
    assert vector.ndim == 1
    assert vector.dtype.kind in "fc"
    leaves = [x for x in map(np.asarray, dualad_leaves(tree)) if x.dtype.kind in "fc"]
    np.testing.assert_array_equal(vector, np.concatenate([np.ravel(x) for x in leaves]) if leaves else np.zeros(0))
    back = unflatten(vector)
    assert all(map(same, dualad_leaves(back), dualad_leaves(tree)))
    assert len(dualad_leaves(back)) == len(dualad_leaves(tree))


def dualad_leaves(tree):
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in dualad_leaves(tree[key])]
    if isinstance(tree, tuple | list):
        return [leaf for part in tree for leaf in dualad_leaves(part)]
    return [] if tree is None else [tree]


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=4))
def test_any_shapes(shapes):
    tree = [np.full(shape, float(i)) for i, shape in enumerate(shapes)]
    vector, unflatten = dualad.flatten(tree)
    assert vector.shape == (sum(x.size for x in tree),)
    assert all(map(same, unflatten(vector), tree))


def test_derivatives_pass_through_both():
    tree = {"a": 0.5, "b": np.array([[1.0, 2.0], [3.0, 4.0]]), "n": 3}

    def f(tree):
        return np.sin(tree["a"]) * np.sum(tree["b"] ** tree["n"])

    vector, unflatten = dualad.flatten(tree)
    g = lambda v: f(unflatten(v))
    by_vector = ck.grad(g)(vector)
    h = 1e-6
    np.testing.assert_allclose(by_vector, [(g(vector + h * e) - g(vector - h * e)) / (2 * h) for e in np.eye(5)], rtol=1e-7)
    np.testing.assert_array_equal(dualad.gradient(g)(vector), by_vector)
    np.testing.assert_allclose(dualad.jit(ck.grad(g))(vector), by_vector, rtol=1e-14)
    assert dualad.hessian(g)(vector).shape == (5, 5)

    def through(a):  # a traced pytree
        vector, unflatten = dualad.flatten((a, 2.0 * a))
        return np.sum(vector**2) + unflatten(vector * 3.0)[1]

    assert dualad.derivative(through)(2.0) == 26.0
    assert ck.grad(through)(2.0) == 26.0


def test_real_leaves_of_a_complex_vector_stay_real():
    vector, unflatten = dualad.flatten((1.0, np.array([1j])))
    back = unflatten(vector * 1j)
    assert back[0] == 0.0
    assert type(back[0]) is float
    assert back[1][0] == -1.0


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((1, 2)), 1.0])
def test_a_vector_of_another_shape_is_refused(wrong):
    _, unflatten = dualad.flatten((1.0, 2.0))
    with pytest.raises(ValueError, match=r"unflatten: the vector has shape .*: give \(2,\)"):
        unflatten(wrong)
    assert unflatten([3.0, 4.0]) == (3.0, 4.0)


def test_a_mask_is_not_dropped():
    with pytest.raises(TypeError, match="flatten: a masked array"):
        dualad.flatten({"a": np.ma.masked_array([1.0, 2.0], [False, True])})


# --- dataclasses ---------------------------------------------------------------------------------------------------------------


@dualad.register_dataclass(static=["name", "turns"])
@dataclass(frozen=True)
class Spring:
    stiffness: float
    length: np.ndarray
    turns: int = 3
    name: str = field(default="spring", repr=False)

    def energy(self):
        return self.turns * self.stiffness * np.sum(self.length**2)


SPRING = Spring(2.0, np.array([1.0, 3.0]))


def test_dataclasses_are_arguments_results_and_states():
    gradient = ck.grad(Spring.energy)(SPRING)
    assert type(gradient) is Spring
    assert (gradient.stiffness, gradient.turns, gradient.name) == (30.0, 3, "spring")
    np.testing.assert_array_equal(gradient.length, [12.0, 36.0])
    forward = dualad.gradient(Spring.energy)(SPRING)
    np.testing.assert_array_equal(forward.length, gradient.length)
    value, tangent = dualad.jvp(lambda s: Spring(s.stiffness**2, s.length), (SPRING,), (Spring(1.0, np.zeros(2)),))
    assert (value.stiffness, tangent.stiffness) == (4.0, 4.0)

    def step(k, spring, rate):
        return Spring(spring.stiffness * rate, spring.length + rate)

    for one in (step, dualad.jit(step)):
        slope = ck.grad(lambda rate: ck.chain(one, SPRING, rate, steps=3).energy())(1.1)
        h = 1e-6
        f = lambda rate: ck.chain(step, SPRING, rate, steps=3).energy()
        assert slope == pytest.approx((f(1.1 + h) - f(1.1 - h)) / (2 * h), rel=1e-8)


def test_static_fields_are_compiled_in():
    f = dualad.jit(Spring.energy)
    assert f(SPRING) == 60.0
    assert f(Spring(2.0, SPRING.length, turns=5)) == 100.0
    assert f.traces == 2


def test_fields_are_set_without_the_initialiser():
    @dualad.register_dataclass
    @dataclass
    class Checked:
        x: float

        def __post_init__(self):
            if not isinstance(self.x, float):
                raise TypeError("x")

    assert ck.grad(lambda c: c.x**2)(Checked(3.0)) == Checked(6.0)


def test_what_is_no_dataclass_is_refused():
    with pytest.raises(TypeError, match="is no dataclass"):
        dualad.register_dataclass(int)
    with pytest.raises(TypeError, match="is no dataclass"):
        dualad.register_dataclass(SPRING)
    with pytest.raises(ValueError, match="registered already"):
        dualad.register_dataclass(Spring)

    @dataclass
    class Other:
        x: float

    with pytest.raises(ValueError, match=r"static names 'y'; the fields of Other are x"):
        dualad.register_dataclass(Other, static="y")
