"""Arguments: what is a count, a flag, an answer, and what is a slip."""

from decimal import Decimal

import numpy as np
import pytest

from checkpoint import Disk, Fit, Memory, Stats, chain, grad, sweep
from checkpoint.support.checks import truth, whole_number
from dualad import jit
from dualad.support.checks import flag

WORDS = {"where": "f", "argument": "n", "least": 1, "hint": "do this"}


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_integers_of_any_kind_become_int(value):
    number = whole_number(value, **WORDS)
    assert number == 3 and type(number) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float64(3), "3", None, [3]])
def test_anything_else_is_refused(value):
    for bad, error, reason in ((value, TypeError, "an integer, got .*"), (0, ValueError, "at least 1, got 0")):
        with pytest.raises(error, match=rf"f: n must be {reason}; do this"):
            whole_number(bad, **WORDS)


def test_seconds_of_any_kind_become_float(tmp_path):
    for every in (2, np.float32(2), Decimal(2), np.array(2)):
        for storage in (Disk(tmp_path, every=every), Fit(tmp_path, every=every)):
            assert storage.every == 2.0 and type(storage.every) is float


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_flags_and_answers(value):
    assert flag(value, where="f", argument="a") is bool(value)
    for answer in (value, int(value), np.array(value), np.array([value]), np.float64(value)):
        assert truth(answer, where="f", k=0) is bool(value)


def halved(k, x):
    return 0.5 * x


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"check": 5}, "check must be True or False, got 5"),
        ({"check": "yes"}, "check must be True or False, got 'yes'"),
        ({"progress": 1}, "progress must be True or False, got 1"),
        ({"stats": {}}, r"stats must be an instance .* stats = Stats\(\), got \{\}"),
        ({"stats": Stats}, r"stats must be an instance .* stats = Stats\(\)"),
    ],
)
def test_slips_in_the_options_of_a_chain(options, text):
    """On plain values too, before anything runs."""
    f = lambda x: chain(halved, x, steps=3, **options)
    for run in (lambda: f(1.0), lambda: grad(f)(1.0)):
        with pytest.raises(TypeError, match=f"^chain: {text}"):
            run()
    with pytest.raises(TypeError, match=f"^sweep: {text}"):
        sweep.reverse(halved, lambda k, x, g: 0.5 * g, 1.0, 1.0, steps=3, **options)
    with pytest.raises(TypeError, match=r"^chain: outputs must be True or False, got 'out'"):
        chain(halved, 1.0, steps=3, outputs="out")


@pytest.mark.parametrize(
    ("answer", "text"),
    [(np.zeros(2, bool), r"an array of shape \(2,\); it must return True or False"), (None, "None; it must"), ("no", "'no'; it must")],
)
def test_predicates_that_answer_neither_yes_nor_no(answer, text):
    f = lambda x: chain(halved, x, until=lambda k, x: answer, max_steps=5)
    for run in (lambda: f(1.0), lambda: grad(f)(1.0)):
        with pytest.raises(TypeError, match=rf"^chain: until\(0, state\) returned {text}"):
            run()
    with pytest.raises(TypeError, match=rf"^sweep: until\(0, state\) returned {text}"):
        sweep.reverse(halved, lambda k, x, g: 0.5 * g, 1.0, 1.0, until=lambda k, x: answer, storage=Memory())


@pytest.mark.parametrize("made", [lambda f: f, jit], ids=["eager", "compiled"])
def test_predicates_that_take_other_arguments(made):
    text = r"until is called as until\(k, state\), but close_enough\(state\) does not take that: too many positional arguments"

    def close_enough(state):
        return state < 0.1

    for run in (lambda x: chain(made(halved), x, until=close_enough), grad(lambda x: chain(made(halved), x, until=made(close_enough)))):
        with pytest.raises(TypeError, match=f"^chain: {text}"):
            run(1.0)
    with pytest.raises(TypeError, match=f"^sweep: {text}"):
        sweep.reverse(halved, lambda k, x, g: 0.5 * g, 1.0, 1.0, until=close_enough)
    assert chain(halved, 1.0, until=lambda k, *state: k == 3) == 0.125
