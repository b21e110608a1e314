"""Random programs with branches, loops, masks and library calls: compiled, they have NumPy's values and the derivatives of eager code."""

import warnings

import numpy as np
import pytest
from branching_programs import Branching, Looping, compiled_differences
from interpreted import no_optimiser  # noqa: F401  (a fixture: LLVM optimises nothing)

from dualad.jit.compiled import BACKENDS

pytestmark = pytest.mark.slow

pytest.importorskip("scipy")


class Short(Branching):
    """A random program of few lines."""

    def grow(self, count):
        super().grow(min(count, 5))


def check(programs, backend, deep=False):
    for program in programs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NumPy, and of what is evaluated by the plain function
            found = compiled_differences(program, backend, deep)
        assert not found, f"{program}\n{found}"


@pytest.mark.parametrize(("backend", "seed"), [("numpy", 1), *[("llvm", 8)] * ("llvm" in BACKENDS)])
def test_random_programs_that_branch(backend, seed):
    check([Short(seed), Looping(seed)], backend)


@pytest.mark.campaign
@pytest.mark.parametrize("block", range(100))
def test_many_random_programs_that_branch(block):
    check(map((Branching, Looping)[block % 2], range(30 * block, 30 * block + 30)), None, deep=block % 8 < 2)


def test_programs_take_several_paths():
    """Other arguments than the first take other branches: else the tests above would not look at them."""
    several = 0
    for seed in range(40):
        program = Branching(seed)
        branches = [line for line in program.lines if line.startswith("if ")]
        taken = set()
        for k in range(4):
            space = program.space(program.argument(k=k))
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for line in program.lines:
                    if line in branches:
                        taken.add((line, bool(eval(line[3 : line.index(":")], space))))
                    exec(line, space)
        several += len(taken) > len(branches)
    assert several > 4


def test_a_wrong_value_is_found():
    class Wrong(Short):
        @property
        def function(self):
            right = super().function
            return lambda x: tuple(v * (1.0 + 1e-4) if hasattr(v, "level") else v for v in right(x))  # the traced ones

    assert any("value 0" in line for line in compiled_differences(Wrong(1), "numpy"))
