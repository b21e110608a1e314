"""What a function closes over: what is seen, what is not, and what counts as changed."""

from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from checkpoint.closure import LONGEST, Closure, hashed

SCALE = 2.0


def helper(x):
    return x * SCALE


class Model:
    """A model with a method that reads an attribute that nobody else names."""

    def __init__(self):
        self.rate, self.unread, self.rng = np.ones(3), 1.0, np.random.default_rng(0)

    def force(self, x):
        return x * self.rate

    def __call__(self, k, x):
        return self.force(x)


def changed(function, change):
    closure = Closure([function])
    closure.settle()
    closure.check("now")
    change()
    try:
        closure.check("now")
    except RuntimeError as error:
        return str(error).split()[1]
    return None


def test_what_is_seen():
    model, a, nested = Model(), np.ones(4), {"w": [np.ones(2), (1.0, "text")]}
    assert changed(lambda k, x: x * a, lambda: a.__setitem__(0, 2.0)) == "a"
    assert changed(lambda k, x: x * nested["w"][0], lambda: nested["w"].__setitem__(1, 3)) is not None
    assert changed(lambda k, x: model.force(x), lambda: model.rate.__setitem__(0, 2.0)) == "model.rate"
    assert changed(model, lambda: model.rate.__setitem__(0, 3.0)) == "Model.rate"
    assert changed(model.force, lambda: model.rate.__setitem__(0, 4.0)) == "self.rate"
    assert changed(partial(np.dot, a), lambda: a.__setitem__(0, 5.0)) == "args[0]"
    assert changed(lambda k, x, b=a, *, c=a: x * b, lambda: a.__setitem__(0, 6.0)) == "c"
    assert changed(lambda k, x: [y * a[0] for y in x], lambda: a.__setitem__(0, 7.0)) == "a"
    assert changed(lambda k, x: helper(x), lambda: globals().__setitem__("SCALE", SCALE + 1)) == "SCALE"


def test_two_variables_of_one_name():
    def make(c):
        return lambda x: x * c

    one, two = np.ones(2), np.ones(2)
    first, second = make(one), make(two)
    assert changed(lambda k, x: first(second(x)), lambda: one.__setitem__(0, 2.0)) is not None
    assert changed(lambda k, x: first(second(x)), lambda: two.__setitem__(0, 2.0)) is not None


def test_what_is_not_seen():
    model, long, generator = Model(), [1.0] * (LONGEST + 1), np.random.default_rng(1)
    step = lambda k, x: model.rate * long[0] * generator.random() * np.pi + later
    assert changed(step, lambda: (setattr(model, "unread", 2.0), long.append(1.0), generator.random())) is None
    loop = []
    loop.append(loop)
    assert changed(lambda k, x: loop, lambda: None) is None
    later = 1.0


def test_objects_that_answer_every_question_with_an_error():
    class Proxy:
        def __getattr__(self, name):
            raise RuntimeError(name)

        __class__ = property(__getattr__)

    proxy = Proxy()
    assert changed(lambda k, x: proxy.rate, lambda: None) is None


def test_what_the_function_changes_itself_does_not_count():
    calls, visits, total = [], np.zeros(3), 0.0

    def step(k, x):
        nonlocal total
        calls.append(k)
        visits[k] += 1
        total += x
        return x

    closure = Closure([step])
    step(0, 1.5)
    closure.settle()
    step(1, 1.5)
    closure.check("now")


@given(
    array=arrays.arrays(st.sampled_from([np.float64, np.int8, np.complex128, np.float32]), st.integers(0, 40)),
    times=st.sampled_from([1, 300, 3000]),
    data=st.data(),
)
def test_hashed(array, times, data):
    array = np.tile(array, times)
    assert hashed(array) == hashed(array.copy()) == hashed(np.repeat(array, 2)[::2])
    if array.size:
        other = array.copy()
        i, j = (data.draw(st.integers(0, array.size - 1)) for _ in "ij")
        other[i], other[j] = other[j], other[i]
        assert (hashed(other) == hashed(array)) == (other.tobytes() == array.tobytes())
        other = array.copy()
        other.view(np.uint8)[data.draw(st.integers(0, array.nbytes - 1))] ^= 1
        assert hashed(other) != hashed(array) != hashed(array.reshape(1, -1))


def test_arrays_that_are_not_read(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(5))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r+")
    assert hashed(mapped) == hashed(np.asarray(mapped)[1:]) == hashed(np.array([None])) == ()


def test_nothing_to_compare_costs_nothing():
    closure = Closure([lambda k, x: np.sin(x) / 3])
    assert closure._found == {}
    closure.settle()
    closure.check("now")
