"""Results appended to one file, each under a key: small results of many evaluations take what they hold, and no file each."""

import errno
import io
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dualad.support.forks import lock_of

from ..support.costs import PART_BYTES
from .files import encode_leaves, entry_header, next_leaves
from .opening import appended, opened
from .storage import DamagedState

__all__ = ["ResultFile"]

MAGIC = b"CKPT"  # of every result, see `files`


class ResultFile:
    """An append-only file of results, each under a key; one process writes. OSError if it cannot be opened or was not made here.

    Torn results at the end are cut off, ones with a damaged header are skipped (`damaged`); data are checked when they are read."""

    def __init__(self, path: Path) -> None:
        self.path, self.damaged = path, False
        self._places: dict[str, int] = {}
        self._end, self._unsynced = 0, False
        self._file, self._process, self.lock = appended(path, "x+"), os.getpid(), None
        self._find()

    def append(self, key: str, leaves: Sequence[Any]) -> None:
        """Append the leaves of a result (as `check_leaves` accepts) atomically; OSError as the system gives it."""
        data = b"".join(encode_leaves(0, leaves, key))
        with lock_of(self):
            self._file.seek(self._end)  # on what a write before this one, which was cut short, may have left
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            self._places[key] = self._end
            self._end += len(data)
            self._unsynced = True

    def read(self, key: str) -> list[Any]:
        """Return the leaves of a result, or raise DamagedState."""
        try:
            with lock_of(self):
                if self._process != os.getpid():  # a fork, which moves the place in the file of the process that writes
                    self._file, self._process = opened(self.path), os.getpid()
                self._file.seek(self._places[key])
                return next_leaves(self._file, key)[1]
        except MemoryError:
            raise
        except Exception as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
            raise DamagedState(f"Disk: a result cannot be read back from {self.path}: {reason}") from error

    def forget(self, key: str) -> None:
        """Leave a result out."""
        self._places.pop(key, None)

    def sync(self) -> None:
        """Return when the disk itself has all results."""
        if self._unsynced:
            self._unsynced = False
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def _find(self) -> None:
        """Find the results, and cut off what is behind the last one."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        file = io.BufferedReader(self._file, PART_BYTES)
        at, beginning = 0, file.read(len(MAGIC))
        while at < size:
            file.seek(at)
            try:
                key, length = entry_header(file)
            except ValueError:
                at = _next(file, at + 1, size)
                continue
            if at + length > size:
                break
            self.damaged |= at > self._end
            self._places[key] = at
            at = self._end = at + length
        file.detach()
        if not self._places and not MAGIC.startswith(beginning):
            self._file.close()
            raise OSError(errno.EEXIST, "Fit: this file was not made here; give another folder, or move it", str(self.path))
        if self._end < size:
            with suppress(OSError):
                self._file.truncate(self._end)


def _next(file: Any, at: int, size: int) -> int:
    """Where the next result may begin."""
    while at < size:
        file.seek(at)
        found = file.read(PART_BYTES).find(MAGIC)
        if found >= 0:
            return at + found
        at += PART_BYTES - len(MAGIC) + 1
    return size
