"""Pausing Python's cyclic garbage collector, which would take a fifth of the time of compiling."""

import gc

from .costs import PROGRAM_OPERATIONS
from .forks import held_across_forks

CHANGING = held_across_forks()


class Seldom:
    """A block in which the collector looks seldom; in all threads, until the last of such blocks ends."""

    running, before = 0, (0, 0, 0)

    def __enter__(self):
        with CHANGING:
            self.running += 1
            if self.running == 1:
                self.before = gc.get_threshold()
                if 0 < self.before[0] < PROGRAM_OPERATIONS:
                    gc.set_threshold(PROGRAM_OPERATIONS, *self.before[1:])

    def __exit__(self, *exception):
        with CHANGING:
            self.running -= 1
            if not self.running:
                gc.set_threshold(*self.before)


collecting_seldom = Seldom()
