"""Compression of saved states: without loss, and with."""

import numpy as np
import pytest

from checkpoint.storage import Memory

MIXED = {"u": np.linspace(0, 1, 500).reshape(20, 25), "i": np.arange(5), "z": np.full((2, 3), 1 + 2j)}
MIXED |= {"n": 3, "x": 0.1, "none": None}
MIXED |= {"s": np.float64(0.1), "empty": np.zeros((0, 4)), "zero": np.array(2.0), "day": np.array(["2024-01-01"], "M8[D]")}


@pytest.mark.parametrize("compress", ["zlib", "float32"])
def test_kinds_and_layouts_come_back(compress):
    session = Memory(compress=compress).open()
    session.save(0, MIXED | {"u": MIXED["u"].T})
    for back in (session.load(0), session.load(0)):
        assert back.keys() == MIXED.keys()
        assert np.allclose(back["u"], MIXED["u"].T, rtol=1e-7) and back["u"].flags.carray
        for key in MIXED.keys() - {"u"}:
            assert type(back[key]) is type(MIXED[key]) and np.array_equal(back[key], MIXED[key])
            assert getattr(back[key], "dtype", None) == getattr(MIXED[key], "dtype", None)
        back["u"].fill(0)
        back["i"].fill(0)


def test_zlib_is_without_loss_and_small():
    session = Memory(compress="zlib").open()
    x = np.random.default_rng(0).normal(size=100)
    session.save(0, x)
    assert session.load(0).tobytes() == x.tobytes()
    session.save(1, np.zeros(10**6))
    assert session.nbytes(1) < 10**5 and session.peak_bytes == session.nbytes()


def test_float32_halves_and_rounds():
    session = Memory(compress="float32").open()
    x = np.random.default_rng(0).normal(size=100)
    session.save(0, x)
    assert session.nbytes() == 400
    back = session.load(0)
    assert back.dtype == np.float64 and back.tobytes() != x.tobytes()
    assert np.array_equal(back, x.astype(np.float32))
    session.save(1, np.ones(10, np.float32))
    assert session.load(1).dtype == np.float32 and session.nbytes(1) == 40
    assert session.copy(np.full(2, 0.1))[0] == 0.1, "the working copy is not rounded"
