"""Functions of many numbers: they take them out of the slots in which they arrive, instead of as arguments."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from checkpoint import value_and_grad
from dualad import jit
from dualad.codegen import machine, to_llvm


@pytest.mark.parametrize("longest", [100, 2000])
def test_no_function_takes_each_number_of_a_list(longest, monkeypatch):
    texts, optimised = [], machine.optimised
    monkeypatch.setattr(machine, "optimised", lambda text: texts.append(text) or optimised(text))
    monkeypatch.setattr(to_llvm, "LONG_FUNCTION", longest)
    monkeypatch.setenv("DUALAD_CACHE_SIZE", "0")
    monkeypatch.setattr(machine, "made", {})

    def energy(numbers, flags, z):
        total = 0.0
        for x, flag in zip(numbers, flags, strict=True):
            total = total + x * x * flag
        return np.real(z * total)

    numbers, flags = np.random.default_rng(0).standard_normal(120).tolist(), [k % 7 for k in range(120)]
    f = value_and_grad(energy, argnums=(0, 2))
    assert jit(f)(numbers, flags, 2.0 - 1.0j) == f(numbers, flags, 2.0 - 1.0j)
    taken = [header.count("%") for text in texts for header in re.findall(r"define internal [^(]*@f\d+_(?:part|joined)\w*\((.*)\)", text)]
    assert taken and max(taken) < 30
