"""A row at one sample, as a function of a list of leaves: what the tests of the table share."""

from functools import cache, cached_property

import numpy as np
import pytest
from in_groups import for_each
from samples import SAMPLES

from checkpoint import vjp
from dualad import jvp
from dualad.core.dispatch import dtype_of
from dualad.forward.seeding import flatten_output
from dualad.rules.calling import public_name

rows = for_each("fn", SAMPLES, public_name)


class Case:
    """A row at one sample; calling it with leaves returns the list of its inexact results.

    `precise` tells that nothing in it is of single precision. Made once (`cases`), with two directions `v` and `w`, a cotangent `g`,
    and what `v` and `g` give: tests share them, and change none of them.
    """

    def __init__(self, fn, sample):
        self.fn, self.sample, self.leaves = fn, sample, sample.leaves()
        self.value = self.whole(*self.leaves)
        self.inexact = [leaf.dtype.kind in "fc" for leaf in arrays(self.value)]
        self.precise = not sample.casts and all(np.finfo(dtype_of(x)).eps < 1e-8 for x in self.leaves)
        self.rtol, self.atol = (1e-7, 1e-9) if self.precise else (2e-3, 2e-3)

    def __call__(self, leaves):
        return [leaf for leaf, kept in zip(flatten_output(self.whole(*leaves), "test")[0], self.inexact, strict=True) if kept]

    def whole(self, *leaves):
        """The call itself, with all its results."""
        return self.fn(*self.sample.fill(leaves), **self.sample.kwargs)

    @cached_property
    def v(self):
        """A random tangent for each leaf."""
        return self.directions(11)

    @cached_property
    def w(self):
        """Another one."""
        return self.directions(12)

    @cached_property
    def g(self):
        """A random cotangent for each inexact result."""
        random = np.random.default_rng(13)
        return [like(random, out) for out, kept in zip(flatten_output(self.value, "test")[0], self.inexact, strict=True) if kept]

    @cached_property
    def pushed(self):
        """Tangents of the results along `v`."""
        return self.push(self.v)

    @cached_property
    def pulled(self):
        """Cotangents of the leaves, pulled back from `g`."""
        return self.pull(self.g)

    def directions(self, seed, *shape):
        """Random tangents for each leaf, of that shape in front of its own."""
        random = np.random.default_rng(seed)
        return [like(random, np.broadcast_to(x, (*shape, *np.shape(x))) if shape else x) for x in self.leaves]

    def push(self, directions, leaves=None):
        """Tangents of the results."""
        return jvp(lambda *leaves: self(leaves), tuple(self.leaves if leaves is None else leaves), tuple(directions))[1]

    def pull(self, cotangents, leaves=None):
        """Cotangents of the leaves."""
        return list(vjp(lambda *leaves: self(leaves), *(self.leaves if leaves is None else leaves))[1](cotangents))

    def assert_close(self, got, expected, exact=None):
        """Compare lists of arrays; `exact` is the tolerance where both come from rules."""
        rtol, atol = (self.rtol, self.atol) if exact is None else (exact, exact) if self.precise else (1e-4, 1e-5)
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            assert np.shape(a) == np.shape(b), f"{self.sample}: shape {np.shape(a)}, expected {np.shape(b)}"
            scale = float(np.max(np.abs(b), initial=0.0))
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol + rtol * scale, err_msg=str(self.sample))

    def assert_paired(self, got, expected, exact=None):
        """Compare two pairings of cotangents and tangents."""
        rtol, atol = (10 * self.rtol, 10 * self.atol) if exact is None or not self.precise else (exact, exact)
        assert got == pytest.approx(expected, rel=rtol, abs=atol), str(self.sample)


@cache
def all_cases(fn):
    """The cases of a function."""
    return [Case(fn, sample) for sample in SAMPLES[fn]]


def cases(fn):
    """Those that have something to differentiate."""
    return [case for case in all_cases(fn) if case.leaves and any(case.inexact)]


def arrays(tree):
    """The leaves of a result, as arrays."""
    return [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in flatten_output(tree, "test")[0]]


def like(random, x):
    """Random numbers of the shape and dtype of `x`."""
    numbers = random.standard_normal(np.shape(x))
    if dtype_of(x).kind == "c":
        numbers = numbers + 1j * random.standard_normal(np.shape(x))
    numbers = np.asarray(numbers).astype(dtype_of(x))
    return numbers if isinstance(x, np.ndarray) else numbers[()]


def paired(cotangents, tangents):
    """The pairing Re(g * t), summed."""
    return sum(float(np.real(np.sum(np.multiply(g, t)))) for g, t in zip(cotangents, tangents, strict=True))
