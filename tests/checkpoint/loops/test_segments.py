"""States of compiled chains are used again; that none is used too early, and that they are, shows in bits and budgets (`test_budget`)."""

import sys
from weakref import ref

import numpy as np

from checkpoint import Revolve, StoreAll, chain, grad
from checkpoint.loops.compiled import BufferPool, Segments
from checkpoint.support.costs import REUSED_BYTES
from dualad import jit

LIKE = (np.zeros(REUSED_BYTES), np.array(1.0))


def test_the_state_that_was_free_last_is_taken_first():
    """It is still in the cache, where one that was free for long is not."""
    pool = BufferPool(LIKE, REUSED_BYTES)
    working, saved = pool.take(), [pool.take() for _ in range(3)]
    addresses = {leaf.ctypes.data for state in [working] for leaf in state}
    del saved
    for _ in range(6):  # a step makes a state of another one, which is free then
        working = pool.take()
        addresses.update(leaf.ctypes.data for leaf in working)
    pool.reclaim()
    assert len(addresses) == 2 * len(LIKE) and all(len(free) == 3 for free in pool.free)


def test_memory_stays_in_use_as_long_as_a_view_of_it():
    pool = BufferPool(LIKE, REUSED_BYTES)
    part = pool.take()[0][::2][1:]
    part[...] = 1.0
    pool.take()[0][...] = 2.0
    pool.reclaim()
    assert part[0] == 1.0 and len(pool.free[0]) == 1
    del part
    pool.reclaim()
    assert len(pool.free[0]) == 2


def test_free_memory_goes_with_the_pool_while_a_state_is_in_use():
    pool = BufferPool(LIKE, REUSED_BYTES)
    state, lost = pool.take(), ref(pool)
    del pool
    assert lost() is None and state[0].shape == LIKE[0].shape


def test_no_function_of_python_is_called_where_a_state_ends():
    """An interrupt that came in it would be lost."""
    pool, called = BufferPool(LIKE, REUSED_BYTES), []
    state = pool.take()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: called.append(event))
    del state
    sys.setprofile(before)
    assert "call" not in called and len(pool.ended) == len(LIKE)


def test_a_call_of_many_steps_takes_one_state_from_the_pool(monkeypatch):
    """The other one, which changes places with it, is nobody's when the call ends, and serves the next."""
    taken, calls, take, advance = [], [], BufferPool.take, Segments.advance
    monkeypatch.setattr(BufferPool, "take", lambda pool: taken.append(None) or take(pool))
    monkeypatch.setattr(Segments, "advance", lambda *given: calls.append(None) or advance(*given))
    step = jit(lambda k, x: 0.5 * x + np.cos(x))
    f = lambda n, **options: grad(lambda x: np.sum(chain(step, x, steps=96, **options)))(np.linspace(0.0, 1.0, n))
    for n in (3, REUSED_BYTES // 8 + 1):
        expected = f(n, schedule=StoreAll())
        taken.clear(), calls.clear()
        assert f(n, schedule=Revolve(4), block=6).tobytes() == expected.tobytes()
        assert len(calls) > 10 and len(taken) <= len(calls) + 2
