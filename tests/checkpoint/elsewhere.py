"""A plugin of pytest: a system that is not POSIX, as far as files go. See test_systems.

There is no fork, no SIGKILL, no fcntl and nothing that opens a folder; a file that is open can neither be removed nor replaced;
msvcrt locks regions of files.
"""

import errno
import fcntl
import logging  # noqa: F401  (it and random ask for forks when they are imported)
import os
import random  # noqa: F401
import signal
import sys
import tempfile  # noqa: F401
import types

OPEN = "/proc/self/fd"


def locking(descriptor, mode, count):
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


def refuse_open(path):
    """Raise where this process has a file open that is to be removed."""
    path = os.path.abspath(os.fspath(path))
    for descriptor in os.listdir(OPEN):
        try:
            found = os.readlink(f"{OPEN}/{descriptor}")
        except OSError:
            continue
        if found == path:
            raise PermissionError(errno.EACCES, "The process cannot access the file because it is being used by another process", path)


def refusing(function, number):
    """The function, for paths of which the `number` first must not be open."""

    def call(*paths, dir_fd=None, **options):
        if dir_fd is None:
            for path in paths[:number]:
                refuse_open(path)
            return function(*paths, **options)
        return function(*paths, dir_fd=dir_fd, **options)

    return call


sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
sys.modules["fcntl"] = sys.modules["resource"] = None
os.unlink, os.remove = refusing(os.unlink, 1), refusing(os.remove, 1)
os.replace, os.rename = refusing(os.replace, 2), refusing(os.rename, 2)
for module, names in ((os, ("fork", "register_at_fork", "pread", "pwrite", "O_NOFOLLOW", "O_DIRECTORY")), (signal, ("SIGKILL", "alarm"))):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
