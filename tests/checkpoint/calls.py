"""Calls that are counted, of which one fails as if the process ended there, the bits of what they lead to, and the bytes that they take."""

import tracemalloc

import numpy as np
import optree


class Interrupted(Exception):
    """In place of the end of a process."""


class End:
    """Which call fails; may change between the sweeps without being taken for what the step depends on."""

    __slots__ = ("at",)

    def __init__(self, at):
        self.at = at


class Counted:
    """Calls, counted; call number `end` fails."""

    def __init__(self, end=None):
        self.end, self.made = End(end), []

    def count(self, call):
        if len(self.made) == self.end.at:
            raise Interrupted
        self.made.append(call)


def bits(tree):
    return [np.asarray(leaf).tobytes().hex() for leaf in optree.tree_leaves(tree)]


def peak(f, *arguments):
    """The most bytes allocated at one moment in a call."""
    tracemalloc.start()
    try:
        f(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
