"""The locks of both packages, and forks: in a child the other threads are gone, so what they had locked would stay locked.

A lock under which only code of these packages runs is held across a fork: the child finds nothing half done. A lock under which a user's
code runs, for as long as that takes, is made anew in the child.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from functools import cached_property as standard
from threading import RLock
from typing import Any

HELD: list[Any] = []  # across a fork
TAKEN: list[Any] = []  # those of them that the process that forks has taken
generation = 0  # of forks
IN_CHILD: list[Callable[[], None]] = []


def held_across_forks(lock=None):
    """Return a lock, a new one unless it is given, that no other thread has when the process forks."""
    HELD.append(RLock() if lock is None else lock)
    return HELD[-1]


COMPILER = held_across_forks()
MAKING = held_across_forks()


def lock_of(owner):
    """Return the lock of an object, for which it has an attribute `lock`, None at first; in a child it is another one."""
    if owner.lock is None or owner.lock[0] != generation:
        with MAKING:
            if owner.lock is None or owner.lock[0] != generation:
                owner.lock = generation, RLock()
    return owner.lock[1]


def in_child(function):
    """Register a function to be called in a child, while the locks are held."""
    IN_CHILD.append(function)


def acquire_locks():
    """Take all locks, waiting for one only while no other is held: their order is anybody's."""
    waited = HELD[0] if HELD else None
    while waited is not None:
        waited.acquire()
        taken, refused = [waited], None
        for lock in HELD:
            if lock is not waited:
                if not lock.acquire(blocking=False):
                    refused = lock
                    break
                taken.append(lock)
        if refused is None:
            TAKEN.extend(taken)
        else:
            for lock in taken:
                lock.release()
        waited = refused


def release_locks():
    taken = TAKEN.copy()
    TAKEN.clear()  # before another thread can take them
    for lock in taken:
        lock.release()


def reset_child():
    """Make a child usable: it has this thread alone."""
    global generation
    generation += 1
    for function in IN_CHILD:
        function()
    release_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=acquire_locks, after_in_parent=release_locks, after_in_child=reset_child)


@cache
def compiler():
    """Return the lock of all that compiles, imports what compiles, or calls LLVM.

    Such an import logs, and what logging locks at a fork is locked after all locks here: a hook younger than its own takes them (again).
    """
    import logging  # noqa: F401

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire_locks)
    return COMPILER


class UnlockedProperty(standard):
    """A `functools.cached_property` without the lock of Python 3.11, which all instances share: threads may compute it twice."""

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        values = vars(instance)
        if self.attrname not in values:
            values[self.attrname] = self.func(instance)
        return values[self.attrname]


cached_property = standard if sys.version_info >= (3, 12) else UnlockedProperty
