"""check=True: the first step whose replay differs is named; right steps pass under every schedule."""

import copy
import functools
import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.schedules import CTZ, Online, Periodic, Revolve, StoreAll
from checkpoint.storage import Disk, Memory
from checkpoint.storage.digests import checksum, digest
from checkpoint.sweep import reverse

X = np.linspace(0, 1, 12).reshape(3, 4)


def step(k, x):
    return x + 0.1 * np.sin(x * (k % 3 + 1))


def pull(k, x, g):
    return g + 0.1 * (k % 3 + 1) * np.cos(x * (k % 3 + 1)) * g


DIFFERENT = [0.0, -0.0, 0, False, None, "", b"", 0j, "\ud800", np.float64(0), np.float32(0)]
DIFFERENT += [np.zeros(()), np.zeros(1), np.zeros((1, 1)), np.zeros(1, np.float32), np.zeros(0)]
DIFFERENT += [(), [], {}, (0.0,), [0.0], {"a": 0.0}, {"b": 0.0}, (0.0, None), (0.0, 0.0)]


def test_different_states_have_different_checksums_and_digests_whatever_their_layout():
    assert len({checksum(state) for state in DIFFERENT}) == len(DIFFERENT)
    assert [checksum(copy.deepcopy(state)) for state in DIFFERENT] == [checksum(state) for state in DIFFERENT]
    for layout in (np.asfortranarray(X), X[::-1][::-1], X.T.copy().T):
        assert checksum({"x": layout}) == checksum({"x": X})
    values = [*DIFFERENT, step, pull, len, functools.partial(step, 1), functools.partial(step, 2), lambda k, x: x]
    assert len({digest(value, "token") for value in values}) == len(values)
    with pytest.raises(TypeError, match="resume: the token has a leaf of type object, whose data cannot be compared"):
        digest([object()], "resume: the token")


@given(st.integers(0, X.size - 1), st.integers(0, 63))
def test_every_bit_counts(place, bit):
    bits = X.copy().view(np.uint64)
    bits.reshape(-1)[place] ^= np.uint64(1 << bit)
    assert checksum(bits.view(float)) != checksum(X)


def test_arrays_of_others():
    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return X

    assert checksum(Foreign()) == checksum(X)
    for leaf in (object(), np.array([None])):
        with pytest.raises(TypeError, match=r"check=True: a state has a leaf of type .*cannot be compared"):
            checksum(leaf)


@pytest.mark.parametrize("schedule", [StoreAll(), CTZ(), CTZ("bisect"), Revolve(2), Periodic(), Online(3)], ids=repr)
def test_right_steps_pass(schedule, tmp_path):
    expected = reverse(step, pull, X, X, steps=30).cotangent
    for storage in (Memory(), Disk(tmp_path)):
        result = reverse(step, pull, X, X, steps=30, schedule=schedule, storage=storage, check=True)
        assert np.array_equal(result.cotangent, expected)
    result = reverse(lambda k, x: np.add(x, step(k, x) - x, out=x), pull, X, X, steps=30, schedule=schedule, check=True)
    assert np.allclose(result.cotangent, expected, rtol=1e-12)


def noisy(*bad):
    """A step that returns something else on every call for the indices `bad`."""
    calls = itertools.count()
    return lambda k, x: step(k, x) + (1e-12 * next(calls) if k in bad else 0.0)


@pytest.mark.parametrize("bad", [(0,), (5,), (13, 5), (3, 4), tuple(range(40))])
@pytest.mark.parametrize("schedule", [CTZ(), Revolve(1), Periodic(8)], ids=repr)
def test_the_first_step_that_differs_is_named(schedule, bad):
    """First is meant in the order of the replays: up to there, all is as it was."""
    replayed, differs = [], noisy(*bad)

    def watched(k, x):
        replayed.append(k)
        return differs(k, x)

    with pytest.raises(RuntimeError, match=r"step \d+ is not reproducible.*another x_") as caught:
        reverse(watched, pull, X, X, steps=40, schedule=schedule, check=True)
    first = next(k for k in replayed[40:] if k in bad)
    assert f"step {first} is not reproducible" in str(caught.value) and replayed[-1] == first


def test_a_storage_with_loss_is_noticed():
    with pytest.raises(RuntimeError, match=r"the storage returned another x_\d+ than was saved"):
        reverse(step, pull, X, X, steps=30, storage=Memory(compress="float32"), check=True)
    with pytest.raises(RuntimeError, match="another x_"):
        reverse(lambda k, x: np.add(x, 1, out=x), pull, X, X, steps=30, storage=Memory(copy=lambda x: x), check=True)


NAMES = """
import functools, sys
import numpy as np
from checkpoint.storage.digests import digest
exec("def made(k, x):\\n    return [y in {'a', 'b', 'c'} for y in x]")
print(digest([made, functools.partial(made, 1), len, np.arange(3), {"a": None, "b": 1.5}, functools.cache(made), print], "token"))
"""


@pytest.mark.slow
def test_digests_are_the_same_in_every_process():
    run = lambda: subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True, check=True).stdout
    assert len({run() for _ in range(3)}) == 1


FUNCTION = "def made(k, x, {}):\n    return x + k * rate"
OBJECT = "class Made:\n    def __call__(self, k, x):\n        return self.rate(x)\n    def rate(self, x):\n        return {}\nmade = Made()"
TYPE = "class made:\n    def rate(self, x):\n        return {}"


@pytest.mark.parametrize("source", [FUNCTION.format("rate={}"), FUNCTION.format("*, rate={}"), OBJECT, TYPE])
def test_what_is_changed_in_the_source_of_a_function_is_seen(source):
    digests = []
    for rate in (1, 2, 2):
        space = {"__name__": "script"}
        exec(source.format(rate), space)
        digests.append(digest(space["made"], "token"))
    assert digests[0] != digests[1] == digests[2]
