"""Calls that are counted, of which one fails as if the process ended there; what they lead to: bits, and bytes."""

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


def fail_at(monkeypatch, number, *places, error=Interrupted):
    """Have call `number` (from 1) of functions, of the places (owner, name), raise; return the list of what was called."""
    made = []

    def failing(inner):
        def call(*args, **options):
            made.append(inner)
            if len(made) == number:
                raise error
            return inner(*args, **options)

        return call

    for owner, name in places:
        monkeypatch.setattr(owner, name, failing(getattr(owner, name)))
    return made


def second_peak(f, *arguments):
    """The most bytes allocated at one moment in a second call."""
    f(*arguments)
    return peak(f, *arguments)


def peak(f, *arguments):
    """The most bytes allocated at one moment in a call."""
    tracemalloc.start()
    try:
        f(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
