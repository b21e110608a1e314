"""Flat vectors for pytrees: the elements of all leaves, one leaf after the other, each in C order."""

import math

import numpy as np
import optree

from ..core.dispatch import dtype_of
from ..forward.push import push_along
from ..forward.seeding import chosen_positions, flatten_input, shape_of, with_arguments


class Flattened:
    """A function `f` of the arguments that are differentiated, these as leaves, and vectors of as many numbers."""

    def __init__(self, f, args, kwargs, argnums, where):
        positions, _ = chosen_positions(args, argnums, where)
        self.f = with_arguments(f, args, kwargs, positions)
        self.leaves, self.structure = flatten_input(tuple(args[i] for i in positions), where)
        self.size = sum(sizes(self.leaves))

    @property
    def primals(self):
        return optree.tree_unflatten(self.structure, self.leaves)

    def along(self, v, nan_safe):
        """Return the value and its derivative along a vector."""
        return push_along(self.f, self.primals, self.unflatten(v), nan_safe, False, "jvp", None)

    def unflatten(self, v):
        """Return a vector as a tuple like the arguments."""
        parts = np.split(np.ravel(v), np.cumsum(sizes(self.leaves))[:-1])
        return optree.tree_unflatten(self.structure, [shaped_like(part, leaf) for part, leaf in zip(parts, self.leaves, strict=True)])


def shaped_like(part, leaf):
    """Return elements of a vector in the shape and dtype of a leaf."""
    return np.reshape(part, shape_of(leaf)).astype(dtype_of(leaf), copy=False)[()]


def sizes(leaves):
    """Return how many elements each leaf has."""
    return [math.prod(shape_of(leaf)) for leaf in leaves]


def flat(tree):
    """Return the leaves of a pytree as one flat array."""
    return np.concatenate([np.ravel(leaf) for leaf in optree.tree_leaves(tree)])
