"""Files that are private, opened so that no link is followed and no interrupt can lose one that is open, and written whole or not at all.

Between a call of `os.open` and whatever closes its descriptor later, there is an instruction at which a Ctrl-C may come. Here both are
one call of C: of `io.FileIO`, which closes what it holds when it is lost.
"""

import errno
import io
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dualad.support.byte_sizes import format_bytes

__all__ = ["appended", "created", "is_at", "made_folder", "of_others", "opened", "sync_file", "write_file"]

PRIVATE = partial(os.open, mode=0o600)  # no function of Python, in which an interrupt could come


def made_folder(path: Path, where: str) -> None:
    """Make a private folder, and those that it is in, where there is none."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{where}: this folder cannot be made ({error.strerror}); give another path"
        raise OSError(error.errno, reason, str(path)) from None


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


def appended(path: Path) -> io.FileIO:
    """A new file, or one that is there, at its end."""
    while True:
        with suppress(FileExistsError):
            return created(path, "x+")
        try:
            file = opened(path, "r+")
        except FileNotFoundError:  # removed meanwhile; or a link to nothing
            if path.is_symlink():
                raise
        else:
            file.seek(0, os.SEEK_END)
            return file


def of_others(message: str, path: Path | str) -> FileExistsError:
    """Return the error for something that was not made here, which is left as it is."""
    return FileExistsError(errno.EEXIST, message, str(path))


def is_at(file: io.FileIO, path: Path) -> bool:
    """Return whether an open file has this name, itself and not through a link."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def write_file(path: Path, blocks: Sequence[Any], what: str, sync: bool = False) -> None:
    """Write a file atomically (temporary name, then rename); with `sync`, it outlives a loss of power.
    `what` names the content in the OSError, which has its size, too."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with io.BufferedWriter(created(temporary)) as file:
            for block in blocks:
                file.write(block)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if sync:
            sync_folder(path.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        reason = f"Disk: cannot write {what}, which takes {format_bytes(sum(map(len, blocks)))}: {error.strerror or error}"
        raise OSError(error.errno, reason, str(path)) from error


def sync_file(path: Path) -> None:
    """Force what was written to a file onto the disk itself."""
    with opened(path, "r+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names of the files in a folder outlive a loss of power, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be opened
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
