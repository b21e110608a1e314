"""Files opened so that no link is followed, and so that an interrupt cannot lose one that is open.

Between a call of `os.open` and whatever closes its descriptor later, there is an instruction at which a Ctrl-C may come. Here both are
one call of C: of `io.FileIO`, which closes what it holds when it is lost.
"""

import errno
import io
import os
import stat
from functools import partial
from pathlib import Path

__all__ = ["appended", "created", "is_at", "opened"]

PRIVATE = partial(os.open, mode=0o600)  # no function of Python, in which an interrupt could come


def created(path: Path, mode: str = "x") -> io.FileIO:
    """A new file, unbuffered; where there is something of this name, that is a FileExistsError."""
    return io.FileIO(path, mode, opener=PRIVATE)


def opened(path: Path, mode: str = "r") -> io.FileIO:
    """Open an existing regular file, unbuffered; a link, folder, pipe or device raises OSError at once."""
    kind = os.stat(path, follow_symlinks=False).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISLNK(kind):
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    file = io.FileIO(path, mode, opener=PRIVATE)
    if path.is_symlink():
        file.close()
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return file


def appended(path: Path, mode: str = "x") -> io.FileIO:
    """A new file, or one that is there, at its end."""
    file = None
    while file is None:
        try:
            file = created(path, mode)
        except FileExistsError:
            file = None
        if file is None:
            try:
                file = opened(path, "r+")
                file.seek(0, os.SEEK_END)
            except FileNotFoundError:  # removed meanwhile; or a link to nothing
                if path.is_symlink():
                    raise
    return file


def is_at(file: io.FileIO, path: Path) -> bool:
    """Return whether an open file has this name, itself and not through a link."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
