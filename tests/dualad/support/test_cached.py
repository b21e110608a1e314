"""value_and_jacobian(f, cache=True): one evaluation a point, whoever asks, and nothing stale."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dualad import jacobian, jit, value_and_jacobian

X = np.array([0.5, -1.5, 2.0])


def counted(f):
    calls = []

    def g(*args, **kwargs):
        calls.append(1)
        return f(*args, **kwargs)

    return g, calls


def test_value_and_jacobian_share_one_evaluation():
    f, calls = counted(lambda x: np.stack([x[0] * x[1], np.sin(x[2])]))
    both = value_and_jacobian(f, cache=True)
    value, jac = both.value(X), both.jacobian(X)
    assert len(calls) == 1
    again = both(X.copy())
    assert len(calls) == 1
    for got, expected in ((value, f(X)), (jac, jacobian(f)(X)), (again[0], f(X)), (again[1], jac)):
        assert np.array_equal(got, expected) and type(got) is type(expected)


@pytest.mark.parametrize(
    "other",
    [X + 1.0, X.astype(np.float32), X.reshape(3, 1), -X, X[::-1], X.copy() * (1 + 2**-52)],
    ids=["values", "dtype", "shape", "signs", "order", "last bit"],
)
def test_another_point_is_evaluated(other):
    both = value_and_jacobian(lambda x: x * x, cache=True)
    both.value(X)
    assert np.array_equal(both.value(other), other * other) and both.value(other).dtype == other.dtype
    assert both.jacobian(other).shape == other.shape * 2


def test_zeros_of_both_signs_and_nans():
    f, calls = counted(lambda x: 1.0 / x)
    both = value_and_jacobian(f, cache=True)
    with np.errstate(all="ignore"):
        assert both.value(np.zeros(1)) == np.inf and both.value(-np.zeros(1)) == -np.inf
        both.value(np.array([np.nan]))
        both.jacobian(np.array([np.nan]))
    assert len(calls) == 3


def test_arguments_and_keywords_tell_points_apart():
    f, calls = counted(lambda x, p, power=2: p["scale"] * x**power)
    both = value_and_jacobian(f, cache=True)
    for scale in (1.0, 2.0):
        for power in (2, 3):
            assert np.array_equal(both.value(X, {"scale": scale}, power=power), scale * X**power)
            np.testing.assert_allclose(np.diag(both.jacobian(X, {"scale": scale}, power=power)), scale * power * X ** (power - 1))
    assert len(calls) == 4


def test_results_are_the_callers_own():
    both = value_and_jacobian(lambda x: x * x, cache=True)
    for _ in range(2):
        value, jac = both(X)
        np.testing.assert_array_equal(value, X * X)
        np.testing.assert_array_equal(jac, np.diag(2 * X))
        value[:] = jac[:] = 9.0
    x = X.copy()
    both.value(x)
    x[0] = 7.0
    assert both.value(x)[0] == 49.0


def test_objects_that_may_change_unseen_are_not_cached():
    class Scale:
        factor = 1.0

    scale = Scale()
    both = value_and_jacobian(lambda x, s: s.factor * x, cache=True)
    assert both.value(X, scale)[0] == 0.5
    scale.factor = 4.0
    assert both.value(X, scale)[0] == 2.0 and both.jacobian(X, scale)[0, 0] == 4.0


def test_it_is_differentiated_and_compiled():
    both = value_and_jacobian(lambda x: x**3, cache=True)
    np.testing.assert_allclose(np.diag(jacobian(both.value)(X)), 3 * X**2)
    np.testing.assert_allclose(np.einsum("iii->i", jacobian(both.jacobian)(X)), 6 * X)
    np.testing.assert_array_equal(value_and_jacobian(jit(lambda x: x * x), cache=True).jacobian(X), np.diag(2 * X))


def test_aux_and_sparse_matrices():
    both = value_and_jacobian(lambda x: (x * x, "note"), cache=True, has_aux=True)
    assert both(X)[2] == "note" and np.array_equal(both.value(X), X * X)
    sparse = value_and_jacobian(lambda x: x * x, cache=True, sparsity="auto")
    sparse.jacobian(X).data[:] = 0.0
    assert sparse.jacobian(X).toarray().tolist() == np.diag(2 * X).tolist()


def test_an_error_is_not_kept():
    state = [True]

    def f(x):
        if state:
            state.clear()
            raise ZeroDivisionError
        return x * x

    both = value_and_jacobian(f, cache=True)
    with pytest.raises(ZeroDivisionError):
        both.value(X)
    assert both.value(X)[0] == 0.25


def test_threads_keep_a_point_each_and_share_one():
    f, calls = counted(lambda x: x * x)
    both = value_and_jacobian(f, cache=True)
    meet = threading.Barrier(4)

    def work(k):
        shared = both.value(X)
        for turn in range(5):
            x = np.full(3, float(k + 10 * turn))
            value = both.value(x)
            meet.wait(20)  # the others have put their points in between
            assert np.array_equal(both.jacobian(x), np.diag(2 * x)) and np.array_equal(value, x * x)
        meet.wait(20)
        return shared

    with ThreadPoolExecutor(4) as pool:
        for shared in pool.map(work, range(4)):
            assert np.array_equal(shared, X * X)
    assert 21 <= len(calls) <= 24  # one thread may be past X before another is there


def test_one_thread_waits_for_the_other():
    begun, calls = threading.Event(), []

    def f(x):
        calls.append(1)
        begun.set()
        waited.wait(0.2)
        return x * x

    waited = threading.Event()
    both = value_and_jacobian(f, cache=True)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(both.value, X)
        assert begun.wait(20)
        second = pool.submit(both.jacobian, X)
        assert np.array_equal(first.result(20), X * X) and np.array_equal(second.result(20), np.diag(2 * X))
    assert len(calls) == 1


def test_a_thread_that_ended_leaves_nothing():
    both = value_and_jacobian(lambda x: x * x, cache=True)
    thread = threading.Thread(target=both.value, args=(X,))
    thread.start()
    thread.join()
    assert not len(both.points)


def test_it_looks_like_f():
    def residual(x):
        """Say what it is."""
        return x

    both = value_and_jacobian(residual, cache=True)
    assert both.__name__ == "residual" and both.__doc__ == "Say what it is."
