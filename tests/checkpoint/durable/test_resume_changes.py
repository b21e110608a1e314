"""Disk(path, resume=True, every=0): a call that is made again with something changed is refused, whatever it was; results tell."""

import functools
import gc
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from calls import Interrupted, bits
from other_processes import in_a_fork

from checkpoint import CTZ, Disk, Periodic, Revolve, StoreAll, chain, grad, hvp, jacobian, value_and_grad, vjp
from checkpoint.storage import files as files_module
from checkpoint.sweep import reverse

N, X = 20, np.array([0.3, 0.8])


def plain(k, x):
    return np.sin(x)


def closed(rate):
    return lambda k, x: np.sin(x) * rate


def late(rate):
    return lambda k, x: np.sin(x) * (rate if 3 <= k < N - 1 else 1.0)


#: steps of a rate; their results tell of a change, whatever it is of
FIRST = {
    "closed-over number": closed,
    "called object": lambda rate: functools.partial(lambda rate, k, x: np.sin(x) * rate, np.array(rate)),
    "layers": lambda rate: [closed(rate)] * N,
    "in the middle": late,
}


def failing(function, at):
    """The same function; call number `at` fails."""
    made = [0]

    def once(*args):
        made[0] += 1
        if made[0] == at:
            raise Interrupted
        return function(*args)

    return once


def gradient(step, folder, at=None, **options):
    options = {"steps": N} | options if "until" not in options else options
    one = failing((lambda k, x: step[k](k, x)) if isinstance(step, list) else step, at)
    return grad(lambda x: np.sum(chain(one, x, storage=Disk(folder, resume=True, every=0), **options)))(X)


def interrupt(step, folder, at, **options):
    with pytest.raises(Interrupted):
        gradient(step, folder, at, **options)


CALLS = {"made": 0, "log": []}


def counting(k, x):
    CALLS["made"] += 1
    CALLS["log"].append(k)
    return np.sin(x), {"norm": np.sum(x * x), "k": k}


def of_outs(step, **options):
    loss = lambda end, outs: np.sum(end) + np.sum(outs["norm"])
    return grad(lambda x: loss(*chain(step(counting), x, steps=N, outputs=True, **options)))(X)


def product(loss, step, **options):
    """A Hessian times a vector, of a part of the final state."""

    def swinging(k, s):
        x, v, n = s
        return (x + 0.1 * v, v - 0.1 * np.sin(x), n + 1), x * v

    return hvp(lambda x: loss(chain(step(swinging), (x, 2.0 * x, 0), steps=N, outputs=True, **options)), X, np.array([1.0, -0.5]))


def of_inputs(step, **options):
    z = (X, np.ones((N, 2)))
    return hvp(lambda z: np.sum(chain(step(lambda k, x, u: np.sin(x) + u * x), z[0], inputs=z[1], **options) ** 2), z, z)


PROGRAMS = {
    "a gradient by a parameter": lambda step, **options: grad(
        lambda x, c: np.sum(chain(step(lambda k, x, c: np.sin(x) * c), x, c, steps=N, **options)), argnums=(0, 1)
    )(X, 1.1),
    "outs, and a step that counts its calls": of_outs,
    "a product of a position": functools.partial(product, lambda end: np.sum(end[0][0] ** 2)),
    "a product of a speed": functools.partial(product, lambda end: np.sum(end[0][1])),
    "a product of outs": functools.partial(product, lambda end: np.sum(end[1])),
    "a product with inputs": of_inputs,
}


@pytest.mark.parametrize("at", [3, 7, N - 1, N + 1, N + 3, N + 9, N + 15])
def test_whatever_is_differentiated_goes_on(folder, at):
    for name, program in PROGRAMS.items():
        with pytest.raises(Interrupted):
            program(lambda step: failing(step, at), storage=Disk(folder, resume=True, every=0))
        resumed = program(lambda step: failing(step, None), storage=Disk(folder, resume=True, every=0))
        assert bits(resumed) == bits(program(lambda step: step)) and not folder.exists(), name


@pytest.mark.parametrize(("name", "at"), [(name, at) for name in FIRST for at in (N - 3, N + 6) if (name, at) != ("in the middle", N - 3)])
def test_a_changed_step_is_noticed_and_nothing_is_lost_by_that(folder, name, at):
    make = FIRST[name]
    expected = gradient(make(1.1), folder)
    interrupt(make(1.1), folder, at)
    with pytest.raises(ValueError, match=r"belongs to another call: running .* again.*remove the folder to begin anew"):
        gradient(make(1.2), folder)
    assert gradient(make(1.1), folder).tobytes() == expected.tobytes()


@pytest.mark.parametrize("schedule", [CTZ(), Revolve(3), StoreAll(), Periodic(5)], ids=repr)
def test_a_step_that_changed_in_the_middle_is_noticed_in_the_reverse_sweep(folder, schedule):
    """Where the states of the two processes meet, a step that is recorded does not give the state that was saved."""
    interrupt(late(1.1), folder, N - 3, schedule=schedule)
    with pytest.raises(RuntimeError, match="running it again from the same state gave another") as caught:
        gradient(late(1.2), folder, schedule=schedule)
    assert "if the call is not the same, remove the folder to begin anew" in caught.value.__notes__[0]


def test_changed_outs_and_pulls_are_noticed(folder):
    def loss(x, weight, at):
        calls = failing(closed(1.1), at)
        return np.sum(
            chain(lambda k, x: (calls(k, x), x * weight), x, steps=N, outputs=True, storage=Disk(folder, resume=True, every=0))[1]
        )

    with pytest.raises(Interrupted):
        grad(loss)(X, 1.0, N - 3)
    with pytest.raises(ValueError, match="running step 0 again gave another row"):
        grad(loss)(X, 2.0, None)

    def run(rate, at=None):
        made = []

        def pull(k, x, g):
            made.append(k)
            if len(made) == at:
                raise Interrupted
            return g * rate

        return reverse(closed(1.1), pull, 1.0, 1.0, steps=N, storage=Disk(folder.with_name("2"), resume=True, every=0)).cotangent

    expected = run(1.1)
    with pytest.raises(Interrupted):
        run(1.1, 7)
    with pytest.raises(ValueError, match=f"running the pull of step {N - 1} again gave another cotangent"):
        run(1.2)
    assert run(1.1) == expected


def test_another_until_is_refused(folder):
    """By what it closes over, too, whatever else is as it was."""
    stop_at = lambda n: lambda k, x: k == n
    interrupt(closed(1.1), folder, 9, until=stop_at(20))
    with pytest.raises(ValueError, match="differs in: until"):
        gradient(closed(1.1), folder, until=stop_at(21))
    assert gradient(closed(1.1), folder, until=stop_at(20)).shape == (2,)


def test_a_jacobian_is_refused_before_the_first_sweep(folder):
    made = []
    f = lambda x: chain(lambda k, x: made.append(k) or np.sin(x), x, steps=N, storage=Disk(folder, resume=True, every=0))
    with pytest.raises(TypeError, match=r"jacobian pulls many cotangents.*use Disk\(path\)"):
        jacobian(f)(X)
    assert made == [] and not folder.exists()


def test_after_an_exception_in_the_loss_the_same_call_goes_on(folder):
    """No rubbish is collected, and the traceback is held."""
    broken = [True]

    def loss(x):
        final = chain(plain, x, steps=N, storage=Disk(folder, resume=True, every=0))
        if broken:
            raise Interrupted
        return np.sum(final)

    gc.disable()
    try:
        for verb in (grad(loss), value_and_grad(loss)):
            try:
                verb(X)
            except Interrupted:
                broken.clear()
                verb(X)
                broken.append(True)
    finally:
        gc.enable()
    assert not folder.exists()


def test_a_pullback_that_is_lost_gives_the_folder_free(folder):
    f = lambda x: chain(plain, x, steps=N, storage=Disk(folder, resume=True, every=0))
    gc.disable()
    try:
        vjp(f, X)
        assert vjp(f, X)[1](X)[0].shape == (2,)
    finally:
        gc.enable()


pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.usefixtures("no_fsync"),
]


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@FORKS
@pytest.mark.parametrize("schedule", [CTZ(), Revolve(3), StoreAll(), Periodic(5)], ids=repr)
def test_pulls_in_forked_children(tmp_path, schedule):
    """With resume the sweep is its process's own."""
    expected = grad(lambda x: np.sum(chain(plain, x, steps=60)))(X).tobytes()
    for storage in (Disk(tmp_path), Disk(tmp_path, resume=True, every=0)):
        _, pullback = vjp(lambda x, storage=storage: chain(plain, x, steps=60, schedule=schedule, storage=storage), X)
        pull = lambda pullback=pullback: pullback(np.ones(2))
        said = [in_a_fork(pull) for _ in range(2)]
        if storage.durable:
            assert all(f"a fork of process {os.getpid()}, which owns the sweep" in each.decode() for each in said)
        else:
            assert said == [expected] * 2
        assert pull()[0].tobytes() == expected and not (tmp_path.exists() and list(tmp_path.iterdir()))


@pytest.mark.slow
@FORKS
def test_a_forked_worker_does_not_keep_the_lock(folder):
    """A process with a worker is killed; the worker lives on, and the same call goes on."""
    script = """
    import os, signal, sys, time
    import numpy as np
    from checkpoint import Disk, chain, grad
    def step(k, x):
        if k == 7 and sys.argv[2] == "kill":
            if not os.fork():
                os.close(1)
                time.sleep(30)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return np.sin(x)
    print(grad(lambda x: chain(step, x, steps=20, storage=Disk(sys.argv[1], resume=True, every=0)))(0.5))
    """
    run = lambda how: subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), str(folder), how],
        cwd=Path(files_module.__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=60,
    )
    assert run("kill").returncode == -signal.SIGKILL
    done = run("go on")
    assert done.returncode == 0 and float(done.stdout) == grad(lambda x: chain(plain, x, steps=20))(0.5)
