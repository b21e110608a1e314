"""A file that one sweep at a time has locked: of all processes, and of this one."""

import errno
import gc
import io
import os
import re
from pathlib import Path

try:
    import fcntl
except ImportError:  # not POSIX
    import msvcrt

    fcntl = None  # type: ignore[assignment]

from dualad.support.forks import held_across_forks, in_child

from .files import appended, is_at, of_others, opened

__all__ = ["Lock"]

NAME = b"checkpoint "  # what is in the file, before the number of the process; cut off where a write was
WORD = re.compile(re.escape(NAME) + rb"[0-9]*")
BUSY = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}
LOCKED: set[io.FileIO] = set()  # files that this process has locked
GUARD = held_across_forks()  # while a file is opened or closed


class Lock:
    """A file lock that ends with its process, however that ends, and that a forked process does not inherit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: io.FileIO | None = None

    def acquire(self) -> None:
        """Lock the file: BlockingIOError if another process has it; OSError if it cannot be opened, or was not made here (it is left)."""
        for _ in range(100):
            if self._tried():
                return
            self.release()
        raise BlockingIOError(errno.EAGAIN, "Disk: another sweep removes this folder again and again", str(self._path.parent))

    def release(self) -> None:
        """Unlock the file; may be called again."""
        with GUARD:
            if self._file is not None:
                LOCKED.discard(self._file)  # before: an interrupt may come behind either, and `held` tells by the other
                self._file.close()
                self._file = None

    def held(self) -> bool:
        """Return whether the file is locked by this object, in this process."""
        return self._file is not None and not self._file.closed

    def found(self) -> bool:
        return self._path.is_file()

    def owner(self) -> str:
        """The number of the process that has locked the file last."""
        with opened(self._path) as file:
            return (file.read(40) or b"")[len(NAME) :].decode("ascii", "replace") or "unknown"

    def remove(self) -> None:
        if fcntl is not None:  # while it is locked: whoever has opened it meanwhile sees that it is gone
            self._path.unlink(missing_ok=True)
            self.release()
        else:  # an open file cannot be removed
            self.release()
            self._path.unlink(missing_ok=True)

    def _tried(self) -> bool:
        """Return whether the file is locked; not if it was removed meanwhile."""
        try:
            with GUARD:
                self._file = appended(self._path)
                LOCKED.add(self._file)
            self._file.seek(0)
            known = self._file.read(40)
            if not NAME.startswith(known or b"") and not WORD.fullmatch(known or b""):
                raise of_others("Disk: this file is not a lock made here; give another folder, or move the file", self._path)
            self._locked(known)
            if not is_at(self._file, self._path):
                return False
            self._write(NAME + str(os.getpid()).encode())
            return True
        except BaseException:
            self.release()
            raise

    def _locked(self, known: bytes) -> None:
        assert self._file is not None
        for last in (False, True):
            try:
                return _lock(self._file.fileno())
            except OSError as error:
                if error.errno not in BUSY:
                    raise OSError(error.errno, f"Disk: cannot lock the folder: {error.strerror}", str(self._path)) from error
                owner = known[len(NAME) :].decode() or "unknown"
                if last or owner != str(os.getpid()):
                    raise BlockingIOError(
                        error.errno,
                        f"Disk: another sweep uses this folder, in process {owner}{' (this one)' if last else ''}; "
                        "give each chain its own folder",
                        str(self._path.parent),
                    ) from None
            gc.collect()  # a sweep of this process that is lost, in a circle of references, gives its folder free

    def _write(self, word: bytes) -> None:
        assert self._file is not None
        try:
            self._file.seek(0)
            self._file.truncate()
            self._file.write(word)
        except OSError as error:
            raise OSError(error.errno, f"Disk: cannot write the lock of the folder: {error.strerror or error}", str(self._path)) from error


def _forked() -> None:
    """Close the files of the parent process, which keeps its locks, and keeps them alone."""
    for file in LOCKED:
        file.close()
    LOCKED.clear()


def _lock(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # not where the word is, which others read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)


in_child(_forked)
