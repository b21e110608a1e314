"""Rows appended to one file: a state's file is written whole, a log grows by O(1) with every step."""

import io
import os
import struct
from array import array
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..storage.files import check_leaves, encode_leaves, next_leaves
from ..storage.opening import appended, opened
from ..storage.pool import Pattern, key_of
from ..support.byte_sizes import format_bytes
from ..support.costs import PART_BYTES

__all__ = ["Log"]

GROUP = -1  # the index of several rows that are one


class Log:
    """An append-only file of rows in the format of state files, each with `label`; a torn row at the end is cut off by `read`."""

    def __init__(self, path: Path, label: str = "") -> None:
        self._path, self._label, self._waiting = path, label, list[bytes]()
        self._unsynced = False
        self._key: Any = None  # of the group of rows that is being gathered
        self._pattern: Pattern | None = None
        self._indices, self._rows = array("q"), bytearray()
        self._file = appended(path)

    def append(self, index: int, leaves: Sequence[Any]) -> None:
        """Copy a row; `flush` writes it. TypeError for a leaf that cannot be written."""
        check_leaves(leaves)
        key = key_of(leaves)
        if key is None or key != self._key:
            self._seal()
            self._key, self._pattern = key, Pattern.of(leaves)
        if self._pattern is not None:
            at = len(self._rows)
            self._rows += bytes(self._pattern.size)
            try:
                self._pattern.pack(leaves, self._rows, at)
                self._indices.append(index)
                if len(self._rows) > PART_BYTES:
                    self.flush()
                return
            except struct.error:  # an integer of more than 64 bits
                del self._rows[at:]
                self._seal()
        self._waiting += map(bytes, encode_leaves(index, leaves, self._label))

    def _seal(self) -> None:
        """End the group of rows of one kind."""
        if self._indices and self._pattern is not None:
            leaves = [self._pattern.text(), np.array(self._indices, np.int64), np.frombuffer(bytes(self._rows), np.uint8)]
            self._waiting += map(bytes, encode_leaves(GROUP, leaves, self._label))
        self._key, self._pattern, self._indices, self._rows = None, None, array("q"), bytearray()

    def flush(self) -> None:
        """Hand the rows to the system, so that they outlive the process; OSError names the file and their size."""
        self._seal()
        data = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        try:
            while data:
                data = data[self._file.write(data) :]
                self._unsynced = True
        except OSError as error:
            reason = f"Disk: cannot append {format_bytes(len(data))} of rows: {error.strerror or error}"
            raise OSError(error.errno, reason, str(self._path)) from error

    def sync(self) -> None:
        """Return when the disk itself has what was flushed; for a thread beside the one that flushes."""
        if self._unsynced:
            self._unsynced = False  # before: what is flushed meanwhile may be too late for this call
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush as far as that is possible, and close the file; may be called again."""
        with suppress(OSError):
            self.flush()
        self._file.close()

    @staticmethod
    def read(path: Path, label: str = "") -> dict[int, list[Any]]:
        """Return the leaves by index (the last row of an index counts), and cut off what follows the last whole row."""
        rows: dict[int, list[Any]] = {}
        end = 0
        with suppress(FileNotFoundError), opened(path, "r+") as raw:
            file = io.BufferedReader(raw)
            with suppress(ValueError):  # the end, or no whole row
                while True:
                    index, leaves = next_leaves(file, label)
                    if index == GROUP:
                        pattern = Pattern.read(leaves[0])
                        packed = leaves[2].data
                        rows.update((k, pattern.unpack(packed, i * pattern.size)) for i, k in enumerate(leaves[1].tolist()))
                    else:
                        rows[index] = leaves
                    end = file.tell()
            if raw.seek(0, os.SEEK_END) > end:
                raw.truncate(end)
        return rows
