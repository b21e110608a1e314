"""Peak memory of a computation, as tracemalloc sees it."""

import tracemalloc
from threading import get_ident

from .forks import in_child, lock_of


class Tracing:
    """One measurement at a time: the thread that has begun to trace for it."""

    def __init__(self):
        self.thread = self.lock = None

    def stop(self):
        self.thread = None
        tracemalloc.stop()

    def abandon(self):
        """In a forked process, end what another thread has begun."""
        if self.thread not in (None, get_ident()):
            self.stop()


TRACING = Tracing()
in_child(TRACING.abandon)


def measure_peak(compute, *args):
    """Return the result of a function, and the most bytes that Python and NumPy had allocated at one moment beyond those before.

    Code runs slower meanwhile. What other threads allocate counts too; what compiled code allocates for itself does not.
    """
    with lock_of(TRACING):
        ours = not tracemalloc.is_tracing()
        if ours:
            TRACING.thread = get_ident()
            tracemalloc.start(1)
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            result = compute(*args)
            return result, tracemalloc.get_traced_memory()[1] - before
        finally:
            if ours:
                TRACING.stop()
