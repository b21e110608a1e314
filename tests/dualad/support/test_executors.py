"""Chunks on executors: equal results from threads and processes, in order; what is lost is named; nothing is left running."""

import functools
import multiprocessing
import os
import pickle
import sys
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import optree
import parallel_programs as programs
import pytest
from other_processes import in_a_fork
from parallel_programs import X, f

import checkpoint
from dualad import jacobian, jacobian_columns, jit, value_and_jacobian

CONTEXT = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, CONTEXT) as pool:
        yield pool


@pytest.fixture(params=["threads", "processes"])
def executor(request):
    if request.param == "processes":
        yield request.getfixturevalue("processes")
    else:
        with ThreadPoolExecutor(2) as pool:
            yield pool


def sparse(g, executor, chunk=None, **options):
    pytest.importorskip("scipy.sparse")
    return jacobian(g, chunk=chunk, executor=executor, sparsity="auto", verify=True, **options)


VERBS = {
    "jacobian": lambda executor, chunk: jacobian(f, chunk=chunk, executor=executor)(X),
    "value_and_jacobian": lambda executor, chunk: value_and_jacobian(f, chunk=chunk, executor=executor)(X),
    "trees": lambda executor, chunk: jacobian(programs.pair, (0, 1), chunk, executor=executor)(X, 3.0),
    "aux": lambda executor, chunk: jacobian(programs.with_aux, chunk=chunk, executor=executor, has_aux=True)(X),
    "keywords": lambda executor, chunk: jacobian(programs.pair, chunk=chunk, executor=executor)(X, scale=2.0),
    "sparse": lambda executor, chunk: sparse(programs.banded, executor, chunk)(X).toarray(),
    "sparse trees": lambda executor, chunk: sparse(programs.pair, executor, chunk, argnums=(0, 1))(X, 3.0).toarray(),
    "sparse value": lambda executor, chunk: value_and_jacobian(programs.banded, chunk=chunk, executor=executor, sparsity="auto")(X)[0],
    "sparse aux": lambda executor, chunk: sparse(programs.with_aux, executor, chunk, has_aux=True)(X)[1],
    "columns": lambda executor, chunk: [column for _, column in jacobian_columns(f, X, chunk, executor=executor)],
    "out": lambda executor, chunk: jacobian_columns(f, X, chunk, executor=executor, out=np.empty((5, 12))),
    "memory": lambda executor, chunk: jacobian_columns(f, X, chunk, executor=executor, out=np.empty((5, 12)), memory="1 MB"),
    "recorded columns": lambda executor, chunk: checkpoint.jacobian_columns(f, X, chunk, executor=executor, out=np.empty((5, 12))),
    "rows": lambda executor, chunk: checkpoint.jacobian_rows(f, X, chunk, executor=executor, out=np.empty((5, 12))),
}


@pytest.mark.parametrize("chunk", [None, 1, 5])
@pytest.mark.parametrize("name", VERBS)
def test_results_are_equal(name, executor, chunk):
    expected, got = VERBS[name](None, chunk), VERBS[name](executor, chunk)
    leaves, structure = optree.tree_flatten(expected)
    others, other = optree.tree_flatten(got)
    assert structure == other
    for a, b in zip(leaves, others, strict=True):
        if isinstance(a, str):
            assert a == b
        else:
            np.testing.assert_allclose(b, a, rtol=1e-13, atol=1e-15)


def test_closures_and_compiled_functions_under_threads():
    with ThreadPoolExecutor(2) as pool:
        for g in (lambda x: x * X, jit(f)):
            np.testing.assert_allclose(jacobian(g, executor=pool)(X), jacobian(g)(X), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("g", [programs.compiled, programs.decorated])
def test_compiled_functions_are_sent_and_traced_there(g, processes):
    g(X)  # whose machine code stays here
    np.testing.assert_allclose(jacobian(g, executor=processes)(X), jacobian(f)(X), rtol=1e-13)
    again = pickle.loads(pickle.dumps(g))
    assert (again is g) == (g is programs.decorated) and np.array_equal(again(X), g(X))


def test_every_worker_gets_some():
    threads = set()
    meet = threading.Barrier(2)

    def g(x):
        if threading.get_ident() not in threads:
            threads.add(threading.get_ident())
            meet.wait(20)  # for the other one
        return x * 2.0

    with ThreadPoolExecutor(2) as pool:
        jacobian(g, executor=pool)(X)
    assert len(threads) == 2


def test_no_more_than_two_chunks_a_worker_are_held():
    begun = []

    def g(x):
        begun.append(1)
        return x * 2.0

    with ThreadPoolExecutor(2) as pool:
        columns = jacobian_columns(g, np.ones(50), 1, executor=pool)
        next(columns)
        time.sleep(0.05)
        assert len(begun) <= 5
        columns.close()
        assert len(begun) <= 5


# --- bad input ------------------------------------------------------------------------------------------------------------------


def test_what_is_no_executor():
    with pytest.raises(TypeError, match=r"jacobian: executor is 4: give an executor of concurrent.futures"):
        jacobian(f, executor=4)
    with pytest.raises(TypeError, match="jacobian_rows: executor is"):
        checkpoint.jacobian_rows(f, X, executor="threads")

    class Client:
        def get_executor(self):
            raise NotImplementedError

    with pytest.raises(TypeError, match=r"executor is a Client: give its executor, client.get_executor\(\)"):
        jacobian_columns(f, X, executor=Client())
    with pytest.raises(TypeError, match=r"jacobian: executor is 4: give an executor of concurrent.futures"):
        jacobian(f, executor=4, sparsity="auto")


def test_errors_of_the_function_keep_their_type_and_say_where(executor):
    for call in (
        lambda: jacobian(programs.failing, executor=executor)(X),
        lambda: list(jacobian_columns(programs.failing, X, executor=executor)),
    ):
        with pytest.raises(ZeroDivisionError, match="mine") as caught:
            call()
        assert "raised while a worker computed columns 0 to" in caught.value.__notes__[0]


@pytest.mark.parametrize("verb", [jacobian_columns, checkpoint.jacobian_rows])
def test_what_cannot_be_pickled(verb, processes):
    with pytest.raises(
        TypeError, match=rf"{verb.__name__}: the ProcessPoolExecutor sends the function to other processes, and it cannot be"
    ):
        list(verb(lambda x: x * 2.0, X, executor=processes))
    with pytest.raises(TypeError, match=r"jacobian: the ProcessPoolExecutor sends an argument to other"):
        jacobian(programs.pair, executor=processes)(X, scale=lambda: 1.0)
    with pytest.raises(TypeError, match=r"sends an argument to other processes, and it cannot be pickled \(not me\)"):
        jacobian(programs.pair, executor=processes)(X, scale=programs.Unsendable())
    np.testing.assert_allclose(jacobian(f, executor=processes)(X), jacobian(f)(X), rtol=1e-13)  # it goes on


@pytest.mark.slow
def test_a_worker_that_dies():
    with ProcessPoolExecutor(1, CONTEXT) as pool:
        with pytest.raises(RuntimeError, match=r"jacobian_columns: a worker of the ProcessPoolExecutor died while columns 0 to 5 was comp"):
            list(jacobian_columns(programs.deadly, X, executor=pool))
        with pytest.raises(RuntimeError, match="start a new executor"):
            jacobian(f, executor=pool)(X)


@pytest.mark.slow
def test_a_sparse_jacobian_whose_work_is_lost(processes):
    pattern = sparse(programs.banded, None)(X)
    jac = jacobian(programs.banded, sparsity=pattern, executor=processes)
    matrix = jac(X)
    assert jac.fill(matrix, 2.0 * X) is matrix and np.array_equal(matrix.toarray(), jacobian(programs.banded)(2.0 * X))
    with pytest.raises(TypeError, match="jacobian: the ProcessPoolExecutor sends the function to other processes, and it cannot be"):
        jacobian(lambda x: programs.banded(x), sparsity=pattern, executor=processes)(X)
    with pytest.raises(RuntimeError, match=r"jacobian: f is not deterministic: .* for colours 1 to 1"):
        jacobian(programs.random, sparsity=np.eye(12) + np.eye(12, k=1), executor=processes, chunk=1)(X)
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        jacobian(programs.failing, sparsity=pattern, executor=processes)(X)
    assert "jacobian: raised while a worker computed colours 0 to 0" in caught.value.__notes__[0]
    with ThreadPoolExecutor(2) as pool:
        np.testing.assert_allclose(jacobian(jit(programs.banded), sparsity=pattern, executor=pool)(X).data, pattern.data, rtol=1e-13)
    with ProcessPoolExecutor(1, CONTEXT) as pool, pytest.raises(RuntimeError, match=r"died while colours 0 to 0 was computed"):
        jacobian(programs.deadly, sparsity=pattern, executor=pool)(X)


def test_an_executor_that_was_shut_down():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="jacobian: the ThreadPoolExecutor is shut down and takes no more work"):
        jacobian(f, executor=pool)(X)
    with ThreadPoolExecutor(1) as pool:
        columns = jacobian_columns(programs.slow, X, 1, executor=pool)
        next(columns)
        pool.shutdown(wait=True, cancel_futures=True)
        with pytest.raises(RuntimeError, match=r"shut down"):
            list(columns)


def test_a_function_that_is_not_deterministic(executor):
    with pytest.raises(RuntimeError, match="f is not deterministic: its value has changed"):
        jacobian(programs.random, chunk=3, executor=executor)(X)


def test_an_executor_that_fails():
    class Failing:
        def submit(self, *args):
            raise OSError("no route to the cluster")

        def shutdown(self):
            raise NotImplementedError

    with pytest.raises(OSError, match="no route"):
        jacobian(f, executor=Failing())(X)


# --- an executor whose tasks wait for it ------------------------------------------------------------------------------------------

NESTED = {
    "jacobian": lambda pool: jacobian(lambda x: jacobian(f, executor=pool)(X) @ x, executor=pool)(X),
    "a task of the user": lambda pool: pool.submit(jacobian(f, executor=pool), X).result(),
    "columns": lambda pool: pool.submit(lambda: next(jacobian_columns(f, X, executor=pool))).result(),
    "rows": lambda pool: pool.submit(lambda: next(checkpoint.jacobian_rows(f, X, executor=pool))).result(),
    "sparse": lambda pool: pool.submit(sparse(programs.banded, pool), X).result(),
    "another pool between": lambda pool: through_another(pool),
}


def through_another(pool):
    with ThreadPoolExecutor(1) as other:
        inner = lambda x: jacobian(f, executor=pool)(X) @ x
        pool.submit(lambda: jacobian(inner, executor=other)(X)).result()


@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_a_task_that_uses_its_own_pool_is_refused(nested):
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(RuntimeError, match=r"this call runs in a task of the ThreadPoolExecutor that it is given as executor="):
            nested(pool)
        assert jacobian(f, executor=pool)(X).shape == (5, 12), "the thread is free again"


def test_members_that_use_their_own_pool_are_named():
    with ThreadPoolExecutor(2) as pool, pytest.raises(checkpoint.MemberError, match="runs in a task of the ThreadPoolExecutor") as raised:
        checkpoint.map_gradients(lambda x: np.sum(jacobian(f, executor=pool)(X) @ x), [X, X, X], executor=pool)
    assert list(raised.value.errors) == [0, 1, 2]


def test_pools_within_pools():
    with ThreadPoolExecutor(1) as outer, ThreadPoolExecutor(1) as inner:
        g = lambda x: jacobian(f, executor=inner)(X) @ x
        np.testing.assert_array_equal(jacobian(g, executor=outer)(X), jacobian(f)(X))


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.parametrize(
    "kind", [ThreadPoolExecutor, functools.partial(ProcessPoolExecutor, mp_context=CONTEXT)], ids=["threads", "processes"]
)
def test_an_executor_of_the_process_before_a_fork_is_refused(kind):
    with kind(1) as pool:
        jacobian(f, executor=pool)(X)
        assert b"belongs to the process from which this one was forked" in in_a_fork(lambda: jacobian(f, executor=pool)(X))


# --- nothing is left running -----------------------------------------------------------------------------------------------------


class Recorded(ThreadPoolExecutor):
    """An executor that keeps its futures."""

    def __init__(self, workers):
        super().__init__(workers)
        self.futures: list[Future] = []

    def submit(self, *args):
        self.futures.append(super().submit(*args))
        return self.futures[-1]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ZeroDivisionError])
def test_after_an_interrupt_nothing_runs(kind):
    with Recorded(2) as pool:

        def put(columns, block):
            raise kind

        with pytest.raises(kind):
            jacobian_columns(programs.slow, X, 1, executor=pool, out=put)
        assert pool.futures and all(future.done() for future in pool.futures)


def test_an_iterator_that_is_dropped_leaves_nothing():
    with Recorded(2) as pool:
        columns = jacobian_columns(programs.slow, X, 1, executor=pool)
        next(columns)
        del columns
        assert len(pool.futures) <= 5 and all(future.done() for future in pool.futures)


def test_processes_stop_too(tmp_path, processes):
    g = functools.partial(programs.noted, folder=str(tmp_path))
    columns = jacobian_columns(g, X, 1, executor=processes)
    next(columns)
    columns.close()
    count = len(list(tmp_path.iterdir()))
    time.sleep(0.3)
    assert count == len(list(tmp_path.iterdir())) <= 6
