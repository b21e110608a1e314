"""keep_heap: the C library keeps the memory of temporary arrays, instead of giving it back and taking it again."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGEST_KEPT = 32 << 20  # the most that glibc takes for M_MMAP_THRESHOLD
NEVER = (1 << 31) - 1  # mallopt takes an int: the heap's end is given back where more than 2 GiB of it are free


def keep_heap() -> bool:
    """Let the process keep the memory of arrays that were freed, so that new ones cost no system calls and page faults.

    By default glibc maps every array above a threshold (128 KB at first) from the system and unmaps it when it is freed, and gives
    the end of its heap back. NumPy code with temporaries of such sizes then spends most of its time on page faults: a JVP of a Rosenbrock
    function of 10^5 variables takes 10.2 ms instead of 0.7 ms, the function itself 2.4 ms instead of 0.25 ms. This sets
    ``M_MMAP_THRESHOLD`` to its largest value (32 MiB; larger arrays are mapped as before) and ``M_TRIM_THRESHOLD`` to 2 GiB, for the whole
    process, until it ends: the process keeps its peak memory.

    Returns
    -------
    Whether it was done: False where the C library is another (macOS, Windows, musl), and nothing is changed.

    Notes
    -----
    The same as the environment variables ``MALLOC_MMAP_THRESHOLD_`` and ``MALLOC_TRIM_THRESHOLD_``, see mallopt(3). Call it once, before
    the work; calling it again changes nothing.

    Examples
    --------
    >>> import dualad
    >>> kept = dualad.keep_heap()
    """
    library = glibc()
    return library is not None and bool(library.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT) and library.mallopt(M_TRIM_THRESHOLD, NEVER))


def glibc():
    """Return the process's C library if it is glibc."""
    try:
        library = ctypes.CDLL(None)
        return library if library.gnu_get_libc_version and library.mallopt else None
    except (AttributeError, OSError, TypeError):  # Windows has no library of the process
        return None
