"""Files that are private and written whole or not at all, opened so that no link is followed and no interrupt can lose one; and locks.

Between a call of `os.open` and whatever closes its descriptor later, there is an instruction at which a Ctrl-C may come. Here both are
one call of C: of `io.FileIO`, which closes what it holds when it is lost.
"""

import errno
import gc
import io
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dualad.support.byte_sizes import format_bytes
from dualad.support.forks import held_across_forks, in_child

try:
    import fcntl
except ImportError:  # not POSIX
    import msvcrt

    fcntl = None  # type: ignore[assignment]

PRIVATE = partial(os.open, mode=0o600)  # no function of Python, in which an interrupt could come


def make_folder(path: Path, where: str) -> None:
    """Make a private folder, and those that it is in, where there is none."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{where}: this folder cannot be made ({error.strerror}); give another path"
        raise OSError(error.errno, reason, str(path)) from None


def create_file(path: Path, mode: str = "x") -> io.FileIO:
    """Create a file, unbuffered; FileExistsError if there is something of this name."""
    return io.FileIO(path, mode, opener=PRIVATE)


def open_file(path: Path, mode: str = "r") -> io.FileIO:
    """Open an existing regular file, unbuffered; a link, folder, pipe or device raises OSError at once."""
    kind = os.stat(path, follow_symlinks=False).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISLNK(kind):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    file = io.FileIO(path, mode, opener=PRIVATE)
    if path.is_symlink():
        file.close()
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return file


def open_to_append(path: Path) -> io.FileIO:
    """Open a file at its end, or create it."""
    while True:
        with suppress(FileExistsError):
            return create_file(path, "x+")
        try:
            file = open_file(path, "r+")
        except FileNotFoundError:  # removed meanwhile; or a link to nothing
            if path.is_symlink():
                raise
        else:
            file.seek(0, os.SEEK_END)
            return file


def not_made_here(message: str, path: Path | str) -> FileExistsError:
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
        with io.BufferedWriter(create_file(temporary)) as file:
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
    """Force what was written to a file onto the disk (fsync)."""
    with open_file(path, "r+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names of the files in a folder outlive a loss of power, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be opened
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# --- locked ----------------------------------------------------------------------------------------------------------------------


NAME = b"checkpoint "  # what is in the file, before the number of the process; cut off where a write was
WORD = re.compile(re.escape(NAME) + rb"[0-9]*")
BUSY = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}
LOCKED: set[io.FileIO] = set()  # files that this process has locked
GUARD = held_across_forks()  # while a file is opened or closed


class Lock:
    """A file lock that ends with its process, however that ends, and that a forked process does not inherit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: io.FileIO | None = None

    def acquire(self) -> None:
        """Lock the file: BlockingIOError if another process has it; OSError if it cannot be opened, or was not made here (it is left)."""
        for _ in range(100):
            if self.try_once():
                return
            self.release()
        raise BlockingIOError(errno.EAGAIN, "Disk: another sweep keeps removing this folder", str(self.path.parent))

    def release(self) -> None:
        """Unlock the file; may be called again."""
        with GUARD:
            if self.file is not None:
                LOCKED.discard(self.file)  # before: an interrupt may come behind either, and `held` tells by the other
                self.file.close()
                self.file = None

    def held(self) -> bool:
        """Return whether the file is locked by this object, in this process."""
        return self.file is not None and not self.file.closed

    def exists(self) -> bool:
        return self.path.is_file()

    def owner(self) -> str:
        """Return the number of the process that has locked the file last."""
        with open_file(self.path) as file:
            return (file.read(40) or b"")[len(NAME) :].decode("ascii", "replace") or "unknown"

    def remove(self) -> None:
        if fcntl is not None:  # while it is locked: whoever has opened it meanwhile sees that it is gone
            self.path.unlink(missing_ok=True)
            self.release()
        else:  # an open file cannot be removed
            self.release()
            self.path.unlink(missing_ok=True)

    def try_once(self) -> bool:
        """Return whether the file is locked; not if it was removed meanwhile."""
        try:
            with GUARD:
                self.file = open_to_append(self.path)
                LOCKED.add(self.file)
            self.file.seek(0)
            known = self.file.read(40)
            if not NAME.startswith(known or b"") and not WORD.fullmatch(known or b""):
                raise not_made_here("Disk: this file is not a lock made here; give another folder, or move the file", self.path)
            self.lock_file(known)
            if not is_at(self.file, self.path):
                return False
            self.write_owner(NAME + str(os.getpid()).encode())
            return True
        except BaseException:
            self.release()
            raise

    def lock_file(self, known: bytes) -> None:
        assert self.file is not None
        for last in (False, True):
            try:
                return lock_descriptor(self.file.fileno())
            except OSError as error:
                if error.errno not in BUSY:
                    raise OSError(error.errno, f"Disk: cannot lock the folder: {error.strerror}", str(self.path)) from error
                owner = known[len(NAME) :].decode() or "unknown"
                if last or owner != str(os.getpid()):
                    raise BlockingIOError(
                        error.errno,
                        f"Disk: another sweep uses this folder, in process {owner}{' (this one)' if last else ''}; "
                        "give each chain its own folder",
                        str(self.path.parent),
                    ) from None
            gc.collect()  # a sweep of this process that is lost, in a circle of references, gives its folder free

    def write_owner(self, word: bytes) -> None:
        assert self.file is not None
        try:
            self.file.seek(0)
            self.file.truncate()
            self.file.write(word)
        except OSError as error:
            raise OSError(error.errno, f"Disk: cannot write the lock of the folder: {error.strerror or error}", str(self.path)) from error


def close_in_child() -> None:
    """In a forked child, close the locked files, whose locks belong to the parent alone."""
    for file in LOCKED:
        file.close()
    LOCKED.clear()


def lock_descriptor(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # not where the word is, which others read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)


in_child(close_in_child)
