"""What a computation takes of memory at most, as tracemalloc sees it."""

from __future__ import annotations

import threading
import tracemalloc

__all__ = ["measured"]

TRACING = threading.Lock()


def measured(compute, *args):
    """Return the result of a function, and the most bytes that Python and NumPy had allocated at one moment beyond those before.

    Code runs slower meanwhile. What other threads allocate counts too; what compiled code allocates for itself does not.
    """
    with TRACING:
        ours = not tracemalloc.is_tracing()
        if ours:
            tracemalloc.start(1)
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            result = compute(*args)
            return result, tracemalloc.get_traced_memory()[1] - before
        finally:
            if ours:
                tracemalloc.stop()
