"""Executors of dask.distributed, on a real cluster: a scheduler and workers in processes of their own, over TCP."""

import os
import signal
import threading
import time
import warnings
from functools import partial

import numpy as np
import parallel_programs as programs
import pytest
from parallel_programs import X, f

from checkpoint import chain, grad, jacobian_rows, map_gradients, value_and_grad
from dualad import jacobian, jacobian_columns, jit

with warnings.catch_warnings():  # of the package's own
    warnings.simplefilter("ignore")
    distributed = pytest.importorskip("distributed", reason="dask.distributed (the extra `distributed`) is not installed")

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]  # warnings of dask and tornado are not ours


OPTIONS = {"host": "127.0.0.1", "threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": 50}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    import dask

    with (
        dask.config.set({"distributed.worker.profile.enabled": False, "temporary-directory": str(tmp_path_factory.mktemp("dask"))}),
        distributed.LocalCluster(n_workers=2, **OPTIONS) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def executor(client):
    with client.get_executor() as executor:
        yield executor


def idle(client, seconds=10.0):
    """Return whether nothing is computed on the workers any more, soon."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(client.processing().values()) and not any(client.run(executing).values()):
            return True
        time.sleep(0.05)
    return False


def executing(dask_worker):
    return len(dask_worker.state.executing)


def test_jacobians_are_equal(executor):
    expected = jacobian(f)(X)
    np.testing.assert_allclose(jacobian(f, executor=executor)(X), expected, rtol=1e-13)
    np.testing.assert_allclose(jacobian_columns(f, X, 5, executor=executor, out=np.empty((5, 12))), expected, rtol=1e-13)
    np.testing.assert_allclose(jacobian_rows(f, X, 2, executor=executor, out=np.empty((5, 12))), expected, rtol=1e-10)


def test_ensembles_of_chains(executor):
    rates = np.linspace(0.1, 1.0, 4)

    def final(x, p):
        return np.sum(chain(lambda k, x, p: x + 0.01 * p * np.sin(x), x, p, steps=50) ** 2)

    xs = [X + k for k in range(5)]
    values, gradients = map_gradients(final, xs, rates[1], executor=executor)
    for x, value, gradient in zip(xs, values, gradients, strict=True):
        expected = value_and_grad(final)(x, rates[1])
        assert value == pytest.approx(expected[0], rel=1e-13)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)


def test_a_worker_killed_in_mid_run_loses_nothing(client, executor, tmp_path):
    victim = next(iter(client.run(os.getpid).values()))

    def kill():
        while not any(path.name.startswith(f"{victim}-") for path in tmp_path.iterdir()):
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    got = jacobian(partial(programs.noted, folder=str(tmp_path)), chunk=1, executor=executor)(X)
    killer.join(20)
    assert not killer.is_alive()
    np.testing.assert_allclose(got, jacobian(f)(X), rtol=1e-13)
    client.wait_for_workers(2, timeout=60)
    assert victim not in client.run(os.getpid).values()


def test_what_kills_every_worker_is_an_error(client):
    import dask

    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    with (
        client.get_executor(retries=0) as executor,
        pytest.raises(RuntimeError, match="a worker of the ClientExecutor died while columns 0 to"),
    ):
        jacobian(programs.deadly, chunk=12, executor=executor)(X)
    client.wait_for_workers(2, timeout=60)
    client.run_on_scheduler(
        lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", dask.config.get("distributed.scheduler.allowed-failures"))
    )


@pytest.mark.parametrize("kind", [KeyboardInterrupt, None])
def test_a_cancelled_call_leaves_nothing_running(client, executor, tmp_path, kind):
    g = partial(programs.noted, folder=str(tmp_path))
    if kind is None:
        columns = jacobian_columns(g, X, 1, executor=executor)
        next(columns)
        columns.close()
    else:

        def put(columns, block):
            raise kind

        with pytest.raises(kind):
            jacobian_columns(g, X, 1, executor=executor, out=put)
    assert idle(client)
    count = len(list(tmp_path.iterdir()))
    time.sleep(0.3)
    assert len(list(tmp_path.iterdir())) == count <= 6


def test_a_gradient_of_twice_the_memory_of_a_worker(tmp_path):
    """By chunks: the array, its gradient and what they are made of never stand in memory together."""
    import dask
    import dask.array as da

    limit, n = 300_000_000, 75_000_000  # the worker takes 140-150 MB, half of it before it begins
    assert 8 * n == 2 * limit
    f = lambda x: np.sum(np.sin(x) * x) + np.mean(x)

    settings = {
        "distributed.scheduler.allowed-failures": 0,  # a worker that takes more is killed, and so is the call
        "distributed.worker.profile.enabled": False,
        "temporary-directory": str(tmp_path),
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=1, memory_limit=limit, **OPTIONS) as cluster,
        distributed.Client(cluster),
    ):
        x = da.arange(n, chunks=1_000_000, dtype=float) / n
        g = grad(f)(x)
        assert g.nbytes == 2 * limit and g.chunks == x.chunks
        expected = x.map_blocks(lambda x: np.sin(x) + x * np.cos(x) + 1.0 / n)
        error, total = dask.compute(abs(g - expected).max(), g.sum())
    assert error < 1e-12 and abs(total - n * np.sin(1.0)) < 10.0


def test_what_cannot_be_pickled_and_compiled_functions(executor):
    lock, step = threading.Lock(), jit(lambda x: x * 2.0)
    step(X)
    np.testing.assert_array_equal(jacobian(lambda x: step(x), executor=executor)(X), 2.0 * np.eye(12))
    with pytest.raises(TypeError, match=r"the ClientExecutor sends the function to other processes, and it cannot be pickled .*lock"):
        jacobian(lambda x: (lock, x)[1], executor=executor)(X)
