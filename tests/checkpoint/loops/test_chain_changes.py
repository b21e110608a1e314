"""chain: what its owner, the program or the steps change between the two sweeps has no effect on the gradient, or raises."""

import numpy as np
import optree
import pytest

import dualad
from checkpoint import CTZ, StoreAll, chain, grad, hvp, vjp
from checkpoint.reverse.tape import Var
from checkpoint.schedules import Mixed


class Kind(np.ndarray):
    pass


@pytest.mark.parametrize("schedule", [CTZ(), StoreAll(), Mixed(3)], ids=str)
@pytest.mark.parametrize("held", [np.array([1.5, 0.5]), np.array([2, 3]), np.array([1.5, 0.5]).view(Kind)], ids=["float", "int", "kind"])
@pytest.mark.parametrize("tree", [lambda c: c, lambda c: {"a": [c]}], ids=["leaf", "tree"])
def test_parameters_changed_between_value_and_pullback(schedule, held, tree):
    def step(k, x, c):
        return np.sin(x) * (c["a"][0] if type(c) is dict else c)

    def pull(change):
        c = held.copy()
        given = tree(c)
        _, pullback = vjp(lambda x: chain(step, x, given, steps=9, schedule=schedule), np.ones(2))
        if change:
            c[:] = 0
            if type(given) is dict:
                given["a"][0] = 7.0
                given["a"] = None
        return pullback(np.ones(2))[0]

    assert np.asarray(pull(True)).tobytes() == np.asarray(pull(False)).tobytes() and pull(True).any()


@pytest.mark.parametrize("where", ["param", "inputs", "state"])
@pytest.mark.parametrize("by", ["x", "c"])
def test_an_array_changed_in_place_by_the_program_after_the_chain(where, by):
    """In reverse mode, and in forward over reverse, where the array is a Dual for the chain."""

    def f(x, c, change):
        c = c * 1.0
        y = {
            "param": lambda: chain(lambda k, x, c: x * c[0], x, c, steps=2),
            "inputs": lambda: chain(lambda k, x, c: x * c, x, inputs=c),
            "state": lambda: chain(lambda k, c, x: c * x, c, x, steps=2),
        }[where]()
        if change:
            c[:] = 0.0
        return np.sum(y**2)

    x, c = np.array([1.5, 0.5]), np.array([[1.1, 0.9], [0.7, 2.0]])
    x = c * 2.0 if where == "state" else x
    for verb in (
        lambda change: grad(lambda x, c: f(x, c, change), argnums=(0, 1))(x, c),
        lambda change: dualad.jvp(lambda c: grad(lambda x: f(x, c, change))(x), (c,), (c,)),
        lambda change: hvp(lambda v: f(v, c, change) if by == "x" else f(x, v, change), *[x if by == "x" else c] * 2),
    ):
        for a, b in zip(optree.tree_leaves(verb(True)), optree.tree_leaves(verb(False)), strict=True):
            np.testing.assert_array_equal(a, b)


def write(k, x, c):
    c["a"][0] += 1.0
    return x * c["a"]


def rebind(k, x, c):
    c["a"] = c["a"] * 2.0
    return x * c["a"]


def grow(k, x, c):
    c["b"] = 1.0
    return x * c["a"]


@pytest.mark.parametrize("schedule", [CTZ(), Mixed(4)], ids=str)
@pytest.mark.parametrize("step", [write, rebind, grow])
def test_step_that_changes_its_parameters_raises(step, schedule):
    f = lambda x, c: np.sum(chain(step, x, {"a": c}, steps=5, schedule=schedule))
    x = np.ones(2)
    for call in (
        lambda: grad(f)(x, x),
        lambda: grad(f, argnums=1)(x, x),
        lambda: grad(f, argnums=(0, 1))(x, x),
        lambda: hvp(lambda x: f(x, np.ones(2)), x, x),
        lambda: hvp(lambda c: f(x, c), x, x),
        lambda: dualad.jvp(lambda c: grad(lambda x: f(x, c))(x), (x,), (x,)),
    ):
        with pytest.raises(ValueError, match=r"step( 0)? changed its parameters"):
            call()


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda k, x, c: read_only_of_the_users(x), r"^assignment destination is read-only"),
        (lambda k, x, c: refused(x), r"^this table is read-only"),
        (lambda k, x, c: refused(x) if isinstance(x, Var) else x, r"^this table is read-only"),
    ],
)
def test_other_errors_of_a_step_stay_what_they_are(step, said):
    """An array of the user's own that is read-only, a message of the user's that has the word."""
    with pytest.raises(ValueError, match=said) as caught:
        grad(lambda x, c: np.sum(chain(step, x, c, steps=3)))(np.ones(2), np.ones(2))
    assert caught.value.__notes__ == ["chain: in step 0"]


def test_a_step_that_fails_with_an_error_of_its_own_kind_is_not_made_again():
    made = []

    def step(k, x, c):
        made.append(k)
        if k == 2:
            raise np.linalg.LinAlgError("singular")
        return x * c

    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        grad(lambda x, c: np.sum(chain(step, x, c, steps=3)))(np.ones(2), np.ones(2))
    assert made.count(2) == 1


def read_only_of_the_users(x):
    np.broadcast_to(np.zeros(()), 2)[0] = 1.0
    return x


def refused(x):
    raise ValueError("this table is read-only")


def test_writes_of_what_is_there_already_raise_too():
    def step(k, x, c):
        c[0] = 1.0
        return x * c

    with pytest.raises(ValueError, match=r"step 0 changed its parameters or inputs"):
        grad(lambda x: np.sum(chain(step, x, np.ones(2), steps=3)))(np.ones(2))


def test_step_that_writes_into_its_input_raises():
    def step(k, x, row):
        row *= 2.0
        return x * row

    f = lambda x, u: np.sum(chain(step, x, inputs=u))
    x, u = np.ones(2), np.ones((3, 2))
    for call in (lambda: grad(f)(x, u), lambda: dualad.jvp(lambda u: grad(lambda x: f(x, u))(x), (u,), (u,))):
        with pytest.raises(ValueError, match=r"step( 0)? changed its parameters or inputs"):
            call()
