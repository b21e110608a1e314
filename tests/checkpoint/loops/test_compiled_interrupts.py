"""Chains of compiled steps that are interrupted, killed, or run in many threads: the bits of one that is not."""

import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from calls import Interrupted, bits, fail_at
from compiled_chains import JITTED, ROWS, N, driven, in_place, random, total

pytest.importorskip("llvmlite")

from checkpoint import CTZ, Disk, Revolve, Stats, StoreAll, chain, grad, vjp
from checkpoint.loops import compiled as segments
from checkpoint.schedules import Mixed


def whole(storage=None, **options):
    """The gradient of a chain with inputs, outs and parameters."""
    x, v = np.linspace(0.1, 1.0, 4), np.zeros(4)
    more = {} if storage is None else {"storage": storage}
    f = lambda x, rows, c: total(chain(JITTED[driven], (x, v), c, inputs=rows, outputs=True, schedule=Revolve(3), **more, **options))
    return bits(grad(f, argnums=(0, 1, 2))(x, ROWS, 0.7))


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 4, N])
def test_a_resumed_chain_goes_on_with_the_same_bits(block, tmp_path, monkeypatch):
    reference, place = whole(block=block), tmp_path / "run"
    for at in (1, 3, 8, 20, 45, 70, 10**9):
        with monkeypatch.context() as patch, suppress(Interrupted):
            fail_at(patch, at, (segments.Segments, "advance"), (segments.Reversal, "pull"))
            assert whole(Disk(place, resume=True, every=0), block=block) == reference
            break
    else:
        pytest.fail("it has never come through")
    assert at > 1 and not place.exists()


@pytest.mark.usefixtures("no_fsync")
@pytest.mark.parametrize("length", [{"until": lambda k, x: k + np.sum(x) > 30.25, "max_steps": 400}, {"steps": N, "block": 3}], ids=min)
@pytest.mark.parametrize("schedule", [CTZ(), StoreAll()], ids=repr)
def test_a_resumed_chain_goes_on_and_makes_damaged_states_again(length, schedule, tmp_path, monkeypatch):
    step, x, place = JITTED[in_place], np.linspace(0.0, 1.0, 9), tmp_path / "run"

    def gradient(**options):
        return bits(grad(lambda x: total(chain(step, x, 0.1, schedule=schedule, **length, **options)))(x))

    reference, storage, stats = gradient(), Disk(place, resume=True, every=0), Stats()
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        fail_at(patch, 3, (segments.Reversal, "pull"))
        gradient(storage=storage)
    shutil.copytree(place, tmp_path / "whole")
    assert gradient(storage=storage, stats=stats) == reference and ("steps" in length or "blocks of 1" in stats.reason)
    names = sorted(file.name for file in (tmp_path / "whole").glob("*.batch"))
    assert names
    for name in names[:: 1 + len(names) // 6]:
        shutil.copytree(tmp_path / "whole", place)
        (place / name).write_bytes(b"")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            assert gradient(storage=storage) == reference
        assert name in str(warned[0].message)


def test_an_interrupt_leaves_a_pullback_that_can_be_called_again(monkeypatch):
    x = random.uniform(size=50)
    for options in ({"schedule": Revolve(3), "block": 1}, {"block": 5}, {"schedule": Mixed(4), "block": 2}):
        _, pullback = vjp(lambda x, options=options: total(chain(JITTED[in_place], x, 0.1, steps=N, **options)), x)
        reference = bits(pullback(1.0))
        for at in (1, 2, 5):
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                fail_at(patch, at, (segments.Reversal, "pull"), error=KeyboardInterrupt)
                pullback(1.0)
            assert bits(pullback(1.0)) == reference


def test_threads_share_compiled_loops():
    reference = whole()
    x = random.uniform(size=50)
    _, pullback = vjp(lambda x: total(chain(JITTED[in_place], x, 0.1, steps=N, schedule=Revolve(2))), x)
    pulled = bits(pullback(1.0))
    with ThreadPoolExecutor(6) as pool:
        found = [pool.submit(whole, block=n) for n in (1, 2, 3, 5, 8, N)]
        again = [pool.submit(lambda: bits(pullback(1.0))) for _ in range(6)]
        assert all(future.result() == reference for future in found) and all(future.result() == pulled for future in again)
