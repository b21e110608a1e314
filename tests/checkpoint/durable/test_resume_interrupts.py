"""Ctrl-C at any moment: nothing waits for ever, no folder stays locked in the same process, and the same call goes on.

The interpreter looks for signals where a function begins and where a call of C returns. A profile function is called just there, and
raises at the chosen one.
"""

import faulthandler
import random
import sys
import warnings
from _thread import _count

import numpy as np
import pytest

from checkpoint import CTZ, Disk, Revolve, StoreAll, chain, grad

N = 6
X, U = np.linspace(-1, 1, 4), np.sin(np.arange(2.0 * N)).reshape(N, 2)

pytestmark = pytest.mark.usefixtures("no_fsync")


def step(k, x, u, c):
    x = x + 0.05 * np.sin(np.roll(x, 1) * c) + 0.01 * np.sum(u)
    return x, np.sum(x * x)


def loss(x, u, c, **options):
    final, outs = chain(step, x, c, inputs=u, outputs=True, **options)
    return np.sum(final) + np.sum(outs * np.cos(np.arange(1.0 * N)))


def gradient(**options):
    return b"".join(np.asarray(part).tobytes() for part in grad(loss, argnums=(0, 1, 2))(X, U, 1.3, **options))


EXPECTED = gradient()


def interrupted_at(moment, function):
    """Call a function, and raise KeyboardInterrupt at one of the moments; return how many there were."""
    seen = 0

    def look(frame, event, argument):
        nonlocal seen
        if event in ("call", "c_return"):
            seen += 1
            if seen == moment:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen


def interrupt_and_go_on(folder, moment, storage, schedule):
    """The second call is made while the traceback of the first one is held; return whether it was interrupted."""
    faulthandler.dump_traceback_later(120, exit=True)
    try:
        interrupted_at(moment, lambda: gradient(storage=storage, schedule=schedule))
        return False
    except KeyboardInterrupt:
        assert gradient(storage=storage, schedule=schedule) == EXPECTED
        return True
    finally:
        faulthandler.cancel_dump_traceback_later()
        assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")  # where a generator is closed
@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("schedule", [CTZ(), Revolve(2), StoreAll()], ids=repr)
def test_interrupted_anywhere(tmp_path, resume, schedule):
    folder, threads = tmp_path / "folder", _count()
    storage = Disk(folder, resume=resume, every=0)
    last = interrupted_at(0, lambda: gradient(storage=storage, schedule=schedule))
    chance, hit = random.Random(repr(schedule)), 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of damaged files
        for _ in range(12):
            hit += interrupt_and_go_on(folder, chance.randrange(1, last), storage, schedule)
    assert hit > 6 and _count() <= threads
