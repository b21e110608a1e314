"""What a function reads besides its arguments is changed, in all ways that are known: no compiled function goes on with old results."""

import warnings

import numpy as np
import outside_changes
import outside_functions
import pytest
from in_groups import for_each

from checkpoint import chain
from dualad import StaleWarning, jit

pytestmark = pytest.mark.slow

X = np.array([1.0, 2.0, 3.0])
CASES = {**outside_changes.CASES, **outside_functions.CASES, **outside_functions.scipy_cases()}
#: seen by their results only: in later calls, at those that are compared
UNWATCHED = {
    "__code__ of f that reads nothing": ("jit",),
    "environment": ("jit", "chain"),
    "global, by globals()": ("jit", "chain"),
    "import by a computed name": ("jit", "chain"),
    "iterator of arrays": ("jit", "chain"),
    "list, very long": ("jit", "chain"),
}
FORMS = ["jit", "chain"]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("DUALAD_OUTSIDE", "2")


def made(name, form, verify, backend="numpy"):
    """Return a compiled function, the plain one, and the change."""
    f, change = CASES[name]()
    if form == "jit":
        return jit(f, verify=verify, backend=backend), f, change

    def step(k, x):
        return 0.1 * f(x) + 1.0

    compiled = jit(step, verify=verify, backend=backend)
    return (lambda x: chain(compiled, x, steps=3)), (lambda x: chain(step, x, steps=3)), change


def changed(name, form, calls, **options):
    """Return the result after a change that follows so many calls, and what it should be."""
    compiled, plain, change = made(name, form, **options)
    for _ in range(calls):
        before = compiled(X)
    assert form == "chain" or compiled.traces == 1, "what stays the same is not traced again"
    np.testing.assert_allclose(before, plain(X), rtol=1e-14)
    change()
    expected = plain(X)
    assert not np.allclose(before, expected, rtol=1e-3), "the change shows"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleWarning)
        return compiled(X), expected


@pytest.mark.parametrize("form", FORMS)
@for_each("name", CASES)
def test_a_change_after_the_first_call_is_seen_at_once(name, form):
    got, expected = changed(name, form, 1, verify=None, backend="llvm" if form == "chain" else "numpy")
    np.testing.assert_allclose(got, expected, rtol=1e-14)


@pytest.mark.parametrize("form", FORMS)
@for_each("name", CASES)
def test_later_changes_are_seen_at_once_where_they_are_watched(name, form):
    got, expected = changed(name, form, 20, verify=False)
    assert np.allclose(got, expected, rtol=1e-14) == (form not in UNWATCHED.get(name, ()))
