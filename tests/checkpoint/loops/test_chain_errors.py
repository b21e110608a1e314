"""chain: what is given or returned wrongly is named, in every mode; what only a reverse sweep meets, in that one."""

import random

import numpy as np
import pytest
from chains import halve
from in_groups import for_each

import dualad
from checkpoint import CTZ, Disk, Revolve, Tiered, chain, grad
from checkpoint.schedules import Mixed
from dualad import jit, jvp


def decay(state, rate):
    return state * rate


def settings(step):
    """Return a chain whose state holds a setting and a text."""
    return lambda x: chain(step, (x, len, None, "text"), steps=3)[0]


def bad(**options):
    step = (lambda k, x, u: x) if "inputs" in options else (lambda k, x: x)
    return lambda x: chain(step, x, **options)


def returning(wrong, at=0):
    """Return a chain of an array whose step returns something else at one step."""
    return lambda x: np.sum(np.real(chain(lambda k, x: wrong(x) if k == at else x, np.ones(3) * x, steps=20)))


ROW, BELOW = np.ones(3), lambda k, x: x < 0.1
NO_CHANGE, OUTS, LENGTH = "must be returned unchanged", "numbers or arrays of numbers", "steps must be a"
ERRORS = {
    # what is given
    "no function": (lambda x: chain(3, x, steps=2), TypeError, "not a function"),
    "negative steps": (bad(steps=-1), ValueError, "steps must be at least 0, got -1"),
    "half a step": (bad(steps=2.5), TypeError, f"{LENGTH}n integer, got 2.5"),
    "a flag of steps": (bad(steps=True), TypeError, f"{LENGTH}n integer"),
    "no steps": (bad(steps=None), TypeError, "give the number of steps by keyword, steps=N"),
    "max_steps of steps": (bad(steps=2, max_steps=3), TypeError, "max_steps= requires until="),
    "too few steps": (lambda x: chain(halve, x + 9, until=lambda k, x: x < 0, max_steps=2), RuntimeError, "not true after max_steps=2"),
    "two lengths": (bad(inputs=ROW, steps=4), ValueError, "lengths differ: steps 4, inputs 3"),
    "two rows": (bad(inputs={"a": ROW, "b": ROW[1:]}), ValueError, r"inputs\['a'\] 3, inputs\['b'\] 2"),
    "inputs without axis": (bad(inputs=1.0, steps=1), TypeError, "leading axis"),
    "inputs and until": (bad(inputs=ROW, until=BELOW), TypeError, "until= is for an unknown number"),
    "outs of no step": (bad(steps=0, outputs=True), ValueError, "at least one step"),
    "outs of a chain that ends at once": (
        lambda x: chain(jit(lambda k, x: (0.5 * x, x)), x, until=lambda k, x: k == 0, outputs=True)[0], ValueError, "made no step"
    ),
    "text put out of a compiled step": (
        lambda x: chain(jit(lambda k, x: (x, "a")), x, steps=3, outputs=True)[0], TypeError, f"step 0 put out 'a'.*{OUTS}"
    ),
    "no row beside settings": (
        lambda x: chain(jit(lambda k, x, c: x), x, "a", inputs=np.ones(3)), TypeError, r"called as step\(k, state, row, params\[0\]\)"
    ),
    "no outs beside settings": (
        lambda x: chain(jit(lambda k, x, c: x), x, "a", steps=2, outputs=True), TypeError, r"must return a pair \(state, out\); step 0"
    ),
    "no outs": (bad(steps=2, outputs=True), TypeError, r"must return a pair \(state, out\); step 0 returned float64"),
    "without k": (lambda x: chain(decay, x, 0.5, steps=3), TypeError, r"step\(k, state, params\[0\]\), but decay\(state, rate\) does"),
    "without k, compiled": (lambda x: chain(jit(decay), x, 0.5, steps=3), TypeError, r"called as step\(k, state, params\[0\]\)"),
    "without a row": (lambda x: chain([halve] * 3, x, inputs=ROW), TypeError, r"called as step\(k, state, row\), but halve\(k, x\)"),
    "an error of its own": (lambda x: chain(lambda k, x: decay(x), x, steps=3), TypeError, "missing 1 .* argument: 'rate'"),
    "block": (bad(steps=3, block=2), TypeError, r"block= requires a step compiled with dualad.jit: chain\(dualad.jit\(step\)"),
    # what is returned
    "structure": (lambda x: chain(lambda k, x: (x, x), x, steps=3), TypeError, "structure"),
    "structure, compiled": (lambda x: chain(jit(lambda k, x: (x, x)), x, steps=3)[0], TypeError, "structure"),
    "structure later": (returning(lambda x: (x, x), 3), TypeError, r"step 3 returned a state of the structure PyTreeSpec\(\(\*, \*\)\)"),
    "shape": (returning(lambda x: x[:-1]), TypeError, r"float64 of shape \(2,\) at state, which was float64 of shape \(3,\)"),
    "shape, compiled": (lambda x: chain(jit(lambda k, x: np.stack([x, x])), x, steps=3), TypeError, r"0 returned float64 of shape \(2,\)"),
    "shape later": (returning(lambda x: x[0], 4), TypeError, r"step 4 returned float64 of shape \(\) at state, which was float64 of"),
    "complex": (returning(lambda x: x + 1j), TypeError, "complex128 of shape"),
    "single precision": (returning(lambda x: x.astype(np.float32)), TypeError, "float32"),
    "None": (returning(lambda x: None), TypeError, "step 0 returned None; return the new state"),
    "None later": (returning(lambda x: None, 5), TypeError, "step 5 returned None"),
    "an integer that becomes a float": (
        lambda x: chain(lambda k, s: {"x": s["x"], "n": s["n"] * 0.5}, {"x": x, "n": 3}, steps=3)["x"], TypeError,
        r"state\['n'\], which was int64",
    ),
    "another setting": (settings(lambda k, s: (s[0], max, None, "text")), TypeError, f"step 0 returned .* {NO_CHANGE}"),
    "another text": (settings(lambda k, s: (s[0], s[1], None, "other")), TypeError, f"step 0 returned .* {NO_CHANGE}"),
    "another text, compiled": (settings(jit(lambda k, s: (s[0], s[1], None, "other"))), TypeError, r"'other' at state\[3\], which was 't"),
    "text put out": (lambda x: chain(lambda k, x: (x, "a"), x, steps=3, outputs=True)[0], TypeError, f"step 0 put out 'a'.*{OUTS}"),
    "object put out": (
        lambda x: chain(lambda k, x: (x, object()), x, steps=3, outputs=True)[0], TypeError, f"put out an object of type object.*{OUTS}"
    ),
    "array of texts put out": (
        lambda x: chain(lambda k, x: (x, np.array(["a"])), x, steps=3, outputs=True)[0], TypeError, f"step 0 put out <U1.*{OUTS}"
    ),
}  # fmt: skip
VERBS = {"plain": lambda f: f, "forward": dualad.derivative, "reverse": grad}
OPTIONS = {  # which only a reverse sweep uses
    "schedule": (lambda x: chain(halve, x, steps=2, schedule="ctz"), TypeError, "schedule must be a Schedule"),
    "storage": (lambda x: chain(halve, x, steps=2, storage={}), TypeError, "storage must be a Storage"),
    "a schedule and a budget": (lambda x: chain(halve, x, steps=3, memory="1 kB", schedule=CTZ()), TypeError, "both given"),
    "records and a check": (
        lambda x: chain(halve, x, steps=3, schedule=Mixed(2), check=True), ValueError, r"does not go with (check=True|Disk.*resume=True)"
    ),
    "records and until": (lambda x: chain(halve, x, until=lambda k, x: k == 3, schedule=Mixed(2)), ValueError, "Mixed: steps is None"),
    "a check and a folder": (
        lambda x: chain(halve, x, steps=3, check=True, storage=Disk("never", resume=True)), ValueError, "check=True compares"
    ),
    "records and a folder": (
        lambda x: chain(halve, x, steps=3, schedule=Mixed(2), storage=Disk("never", resume=True)), ValueError, r"not written to disk"
    ),
    "tiers and a folder": (
        lambda x: chain(halve, x, steps=3, schedule=Tiered(1, 1), storage=Disk("never", resume=True)), ValueError, r"other than Tiered"
    ),
    "a fixed length and until": (
        lambda x: chain(halve, x, until=lambda k, x: k == 3, schedule=Revolve(2)), ValueError, "Revolve: steps is None"
    ),
    "a budget": (bad(steps=3, memory="2 Gx"), ValueError, "memory: cannot read '2 Gx'"),
    "a token": (bad(steps=3, token=1), TypeError, "token= is used only to resume"),
    "stats": (bad(steps=3, stats={}), TypeError, "stats must be an instance"),
    "a bar": (bad(steps=3, progress=2), TypeError, "progress must be True or False"),
    "no steps in a block": (bad(steps=3, block=0), ValueError, "block must be at least 1"),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
@for_each("name", ERRORS)
def test_errors_of_every_mode(name, verb):
    f, error, words = ERRORS[name]
    with pytest.raises(error, match=words):
        VERBS[verb](f)(1.0)


@pytest.mark.parametrize("verb", [*VERBS.values(), jit, lambda f: jit(grad(f))])
@for_each("name", OPTIONS)
def test_options_are_checked_where_nothing_is_saved(name, verb):
    f, error, words = OPTIONS[name]
    with pytest.raises(error, match=words):
        verb(f)(1.0)


def state(held):
    return lambda F: chain(lambda k, s, F: s, held, F, steps=3)


def generator(made):
    return lambda x: chain(lambda k, s: s, (x, made), steps=2)[0]


def shrink(x, **options):
    return np.sum(chain(options.pop("step", lambda k, x: x * 0.9), np.ones(2000) * x, steps=400, **options))


CHANGES = r"chain: state\[1\] is a .*, which changes when it is used.*from k"
IN_REVERSE = {
    "hvp": (grad(lambda x: chain(halve, x, steps=3)), TypeError, "hvp"),
    "hvp of forward": (
        lambda x: jvp(lambda x: chain(lambda k, s: {"a": s["a"][:2]}, {"a": x}, steps=3)["a"][0], (np.ones(3) * x,), (np.ones(3),))[1],
        TypeError, r"chain: step 0 returned float64 of shape \(2,\) at state\['a'\]",
    ),
    "a small budget": (lambda x: shrink(x, memory="32 KB"), ValueError, "memory='32 KB' is too small"),
    "a small budget, compiled": (lambda x: shrink(x, step=jit(lambda k, x: x * 0.9), memory="32 KB"), ValueError, "memory='32 KB' is too"),
    "objects in an array": (state(np.array([{}, 1.0], object)), TypeError, "chain: state has dtype .*, which has no derivative"),
    "structured": (state(np.zeros(2, [("u", float)])), TypeError, "chain: state has dtype .*, which has no derivative"),
    "Generator": (generator(np.random.default_rng(0)), TypeError, CHANGES),
    "RandomState": (generator(np.random.RandomState(0)), TypeError, CHANGES),
    "Random": (generator(random.Random(0)), TypeError, CHANGES),
    "iterator": (generator(iter([1, 2, 3])), TypeError, CHANGES),
    "closure over a traced value": (lambda c: chain(lambda k, x: x * c, 1.0, steps=3), TypeError, "closes over"),
    "closure, records": (lambda c: chain(lambda k, x: x * c, 1.0, steps=9, schedule=Mixed(8)), TypeError, "closes over"),
    "closure at a later step": (
        lambda c: chain(lambda k, x: x * c if k == 2 else x, c, steps=4), (TypeError, RuntimeError), "closes over|derivative call"
    ),
}  # fmt: skip


@for_each("name", IN_REVERSE)
def test_errors_of_reverse_mode(name):
    f, error, words = IN_REVERSE[name]
    with pytest.raises(error, match=words):
        grad(f)(1.0)


def test_a_closure_over_a_traced_value_in_forward_mode():
    with pytest.raises(TypeError, match="closes over"):
        dualad.derivative(lambda c: chain(lambda k, x: x * c, 1.0, steps=3))(2.0)
