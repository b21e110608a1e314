"""The elements of a traced array in C order: what ``x.flat`` is, whatever the memory layout of `x`."""

import operator

import numpy as np

from ..rules.writing import cycled
from .conversions import STANDING, lift
from .dispatch import array


class Flat:
    """An iterator over the elements of an array, which reads and writes them by their flat positions, as ``numpy.flatiter`` does."""

    __slots__ = ("base", "index")

    def __init__(self, base):
        self.base, self.index = base, 0

    def __len__(self):
        return self.base.size

    def __iter__(self):
        return self

    def __next__(self):
        if self.index >= len(self):
            raise StopIteration
        self.index += 1
        return self[self.index - 1]

    @property
    def coords(self):
        """The coordinates of the next element."""
        return np.unravel_index(self.index, self.base.shape)

    def copy(self):
        """Return all elements as an array of one axis."""
        return self[...]

    def places(self, index):
        """Return an array of at least one axis that shows the base, where in it the elements at `index` are, and how many."""
        base = self.base if self.base.ndim else self.base[None]
        chosen = index if type(index) is int and 0 <= index < base.size else np.arange(base.size)[index]
        return base, np.unravel_index(chosen, base.shape), np.size(chosen)

    def __getitem__(self, index):
        base, where, _ = self.places(index)
        return base[where]

    def __setitem__(self, index, v):
        base, where, count = self.places(index)
        v = array(v) if np.ndim(v) else v
        base[where] = cycled(v, count) if np.ndim(v) and np.ndim(where[0]) else v

    def __array__(self, dtype=None, copy=None):
        return self.copy().__array__(dtype)

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        return getattr(ufunc, method)(*lift(args), **kwargs)

    def __array_function__(self, fn, types, args, kwargs):
        return fn(*lift(args), **lift(kwargs))


STANDING[Flat] = Flat.copy


def compared(compare):
    return lambda self, other: compare(self.copy(), lift(other))


for name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Flat, f"__{name}__", compared(getattr(operator, name)))
