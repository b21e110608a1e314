"""What a user sees of an error: the lines of the program, none of ours, unless DUALAD_FULL_TRACEBACK asks for them."""

import traceback
from pathlib import Path

import numpy as np
import pytest
from in_groups import for_each

import checkpoint
import dualad
import dualad.testing.derivatives
from dualad.support.callers import owner, trim

X = np.ones(3)


def mistake(*args):
    return args[0].not_there


def shapes(x):
    return x @ np.ones((2, 2))  # raised by NumPy, in a frame of ours


def in_chain(x):
    return np.sum(checkpoint.chain(lambda k, x: mistake(x), x, steps=4))


def out_of_place(x):
    return float(x[0])


CALLS = {
    "jvp": lambda f: dualad.jvp(f, (X,), (X,)),
    "derivative": lambda f: dualad.derivative(lambda t: f(t * X))(1.0),
    "value_and_derivative": lambda f: dualad.value_and_derivative(lambda t: f(t * X))(1.0),
    "gradient": lambda f: dualad.gradient(f)(X),
    "value_and_gradient": lambda f: dualad.value_and_gradient(f)(X),
    "jacobian": lambda f: dualad.jacobian(f)(X),
    "value_and_jacobian": lambda f: dualad.value_and_jacobian(f)(X),
    "jacobian_columns": lambda f: list(dualad.jacobian_columns(f, X)),
    "jacobian_columns out": lambda f: dualad.jacobian_columns(f, X, out=np.empty((3, 3))),
    "jacobian_rows": lambda f: list(checkpoint.jacobian_rows(f, X)),
    "recorded jacobian_columns": lambda f: checkpoint.jacobian_columns(f, X, out=np.empty((3, 3))),
    "cached": lambda f: dualad.value_and_jacobian(f, cache=True).value(X),
    "hessian": lambda f: dualad.hessian(f)(X),
    "explain_nan": lambda f: dualad.explain_nan(f, X),
    "grad": lambda f: checkpoint.grad(f)(X),
    "value_and_grad": lambda f: checkpoint.value_and_grad(f)(X),
    "reverse jacobian": lambda f: checkpoint.jacobian(f)(X),
    "vjp": lambda f: checkpoint.vjp(f, X),
    "linearize": lambda f: checkpoint.linearize(f, X),
    "hvp": lambda f: checkpoint.hvp(f, X, X),
    "explain": lambda f: checkpoint.explain(f, X),
    "checkpoint": lambda f: checkpoint.grad(checkpoint.checkpoint(f))(X),
    "jit": lambda f: dualad.jit(f)(X),
    "nested": lambda f: dualad.jacobian(checkpoint.grad(f))(X),
}


def reversed_sweep(f, step=lambda k, x: x * x, pull=lambda k, x, g: g, **options):
    return checkpoint.sweep.reverse(step, pull, X, X, steps=4, **options)


SWEEPS = {
    "step": lambda f: reversed_sweep(f, step=lambda k, x: f(x) if k == 2 else x * x),
    "pull": lambda f: reversed_sweep(f, pull=lambda k, x, g: f(x)),
    "seed": lambda f: checkpoint.sweep.reverse(lambda k, x: x, lambda k, x, g: g, X, f, steps=4),
    "record": lambda f: reversed_sweep(f, record=lambda k, x: f(x), schedule=checkpoint.Mixed(3)),
    "checked": lambda f: reversed_sweep(f, pull=lambda k, x, g: f(x), check=True),
    "profile": lambda f: checkpoint.profile(lambda k, x: f(x), X, steps=4),
    "profile of an engine": lambda f: checkpoint.profile(lambda k, x: x, X, pull=lambda k, x, g: f(x), seed=X, steps=4),
}


@pytest.fixture
def trimmed(monkeypatch):
    monkeypatch.delenv("DUALAD_FULL_TRACEBACK", raising=False)


def ours(error):
    """The frames of this package in what is printed of an error, also of those behind it."""
    found = []
    while error is not None:
        found += [frame for frame in traceback.extract_tb(error.__traceback__) if owner(frame.filename) == "dualad"]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


@pytest.mark.parametrize("f", [mistake, shapes, in_chain, out_of_place])
@for_each("call", CALLS.values(), size=30)
def test_only_the_users_lines_are_left(call, f, trimmed):
    with pytest.raises((AttributeError, ValueError, TypeError)) as caught:
        call(f)
    assert not ours(caught.value)
    innermost = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert innermost.name == ("mistake" if f is in_chain else f.__name__) and Path(innermost.filename) == Path(__file__)


def test_of_a_rule_in_the_sweep_back_too(trimmed):
    double = dualad.primitive(lambda x: 2.0 * x)
    dualad.rules.explicit(double, (None,), (mistake,))
    with pytest.raises(AttributeError) as caught:
        checkpoint.grad(lambda x: np.sum(double(x)))(X)
    assert {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)} == {__file__}


@pytest.mark.parametrize("call", SWEEPS.values(), ids=SWEEPS)
def test_of_sweeps_and_profiles_too(call, trimmed):
    with pytest.raises(AttributeError) as caught:
        call(mistake)
    assert not ours(caught.value) and traceback.extract_tb(caught.value.__traceback__)[-1].name == "mistake"


@pytest.mark.parametrize(
    "call",
    [
        lambda: reversed_sweep(None, schedule="ctz"),
        lambda: checkpoint.profile(mistake, X, steps=0),
        lambda: checkpoint.grad(np.sum, 3)(X),
        lambda: checkpoint.grad(lambda x: x)(X),
        lambda: dualad.jvp(np.sin, X, X),
        lambda: dualad.jacobian_columns(np.sin, (X, X)),
        lambda: checkpoint.vjp(np.sin, X)[1](1.0),
        lambda: checkpoint.linearize(np.sin, X)[1](1.0),
        lambda: checkpoint.chain(mistake, X, steps=3),
        lambda: checkpoint.chain(lambda k, x: 1, X, steps=3),
        lambda: checkpoint.chain(mistake, X, steps=-3),
        lambda: checkpoint.chain(mistake, X, steps=3, storage="disk"),
        lambda: checkpoint.plan(10.5, "8 MB", "2 GB"),
        lambda: dualad.testing.check_derivatives(mistake, X),
    ],
)
def test_an_error_of_a_wrong_call_stands_at_the_call(call, trimmed):
    with pytest.raises(Exception) as caught:
        call()
    assert not ours(caught.value)


def test_all_frames_are_shown_where_they_are_asked_for(monkeypatch):
    monkeypatch.setenv("DUALAD_FULL_TRACEBACK", "1")
    with pytest.raises(AttributeError) as caught:
        checkpoint.grad(mistake)(X)
    assert len(ours(caught.value)) >= 2


def test_a_mistake_of_ours_is_shown_whole(monkeypatch, trimmed):
    monkeypatch.delattr("checkpoint.reverse.recording.flatten_output")
    with pytest.raises(NameError) as caught:
        checkpoint.grad(np.sum)(X)
    assert len(ours(caught.value)) >= 2


def test_causes_are_trimmed_too(trimmed):
    def f(x):
        try:
            return checkpoint.grad(mistake)(x)
        except AttributeError as error:
            raise ValueError("mine") from error

    with pytest.raises(ValueError, match="mine") as caught:
        dualad.jacobian(f)(X)
    assert not ours(caught.value) and isinstance(caught.value.__cause__, AttributeError)


def test_errors_that_stand_behind_one_another_end(trimmed):
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    trim(first)


def test_wrong_arguments_of_compare_show_no_frame_of_ours(monkeypatch):
    monkeypatch.delenv("DUALAD_FULL_TRACEBACK", raising=False)
    with pytest.raises(ValueError, match="compare: steps must be at least 1") as caught:
        checkpoint.compare(steps=0, state_bytes=8)
    assert caught.value.__traceback__.tb_next is None
