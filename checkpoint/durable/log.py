"""Log files, to which records are appended; the file of a state is always written whole."""

import io
import os
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from dualad.support.byte_sizes import format_bytes
from dualad.support.forks import lock_of

from ..storage.codec import MAGIC, check_leaves, encode_leaves, encode_records, read_header, read_record, unreadable
from ..storage.files import not_made_here, open_file, open_to_append
from ..storage.memory import Kind, Pattern, Record
from ..support.costs import GATHERED_BYTES


class Log:
    """An append-only file of records; the next record overwrites what an incomplete write has left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end, self.file = 0, open_to_append(path)

    def write(self, blocks: Iterable[Any]) -> None:
        """Append records as a whole; OSError as the system gives it."""
        data = memoryview(b"".join(blocks))
        self.file.seek(self.end)
        rest = data
        while rest:
            rest = rest[self.file.write(rest) :]
        self.end += len(data)

    def cut(self) -> None:
        if self.file.seek(0, os.SEEK_END) > self.end:
            self.file.truncate(self.end)

    def sync(self) -> None:
        """Return when the disk itself has what was written; for a thread beside the one that writes."""
        os.fsync(self.file.fileno())

    def close(self) -> None:
        """Close the file; may be called again."""
        self.file.close()


class RowLog(Log):
    """A log of rows, by the index of their step, in records with `label`."""

    def __init__(self, path: Path, label: str = "") -> None:
        super().__init__(path)
        self.label, self.pattern = label, Pattern(())  # of the rows that are being gathered
        self.indices, self.packed = array("q"), bytearray()
        self.end = self.file.seek(0, os.SEEK_END)

    def append(self, index: int, leaves: Sequence[Any]) -> None:
        """Copy a row; `flush` writes it. TypeError for a leaf that cannot be written."""
        key: tuple[Kind, ...] = check_leaves(leaves)
        if key != self.pattern.key:
            self.flush()
            self.pattern = Pattern(key)
        at = len(self.packed)
        self.packed += bytes(self.pattern.size)
        self.pattern.pack(leaves, self.packed, at)
        self.indices.append(index)
        if len(self.packed) > GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the rows, so that they outlive the process; OSError names the file and their size."""
        indices, packed, self.indices, self.packed = self.indices, self.packed, array("q"), bytearray()
        if not indices:
            return
        blocks = encode_records([Record(self.pattern, None, indices.tolist(), packed)], self.label)
        try:
            self.write(blocks)
        except OSError as error:
            reason = f"Disk: cannot append {format_bytes(sum(map(len, blocks)))} of rows: {error.strerror or error}"
            raise OSError(error.errno, reason, str(self.path)) from error

    def read(self) -> dict[int, list[Any]]:
        """Return the leaves by index (the last row of an index counts), and cut off what follows the last whole record."""
        rows: dict[int, list[Any]] = {}
        self.end = self.file.seek(0)
        with suppress(ValueError):  # the end, or no whole record
            while True:
                rows |= read_record(self.file, self.label)
                self.end = self.file.tell()
        self.cut()
        return rows

    def clear(self) -> None:
        """Forget the rows of an earlier process."""
        self.end = 0
        self.cut()

    def close(self) -> None:
        """Flush as far as that is possible, and close the file; may be called again."""
        with suppress(OSError):
            if not self.file.closed:
                self.flush()
        super().close()


class ResultFile(Log):
    """An append-only file of results, at `places` by their keys; one process writes. OSError if it cannot be opened or was not made here.
    Torn results at the end are cut off, ones with a damaged header are skipped (`damaged`); data are checked when they are read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.damaged = False
        self.places: dict[str, int] = {}
        self.process, self.lock = os.getpid(), None
        self.find()

    def append(self, key: str, leaves: Sequence[Any]) -> None:
        """Append the leaves of a result; OSError as the system gives it."""
        with lock_of(self):
            place = self.end
            self.write(encode_leaves(0, leaves, key))
            self.places[key] = place

    def read(self, key: str) -> list[Any]:
        """Return the leaves of a result, or raise DamagedState."""
        try:
            with lock_of(self):
                if self.process != os.getpid():  # a fork, which moves the place in the file of the process that writes
                    self.file, self.process = open_file(self.path), os.getpid()
                self.file.seek(self.places[key])
                (leaves,) = read_record(self.file, key).values()
                return leaves
        except MemoryError:
            raise
        except Exception as error:
            raise unreadable("a result", self.path, error, "Fit") from error

    def find(self) -> None:
        """Find the results, and cut off what is behind the last one."""
        size, at = self.file.seek(0, os.SEEK_END), 0
        file = io.BufferedReader(self.file)
        while at < size:
            file.seek(at)
            try:
                header = read_header(file)
            except ValueError:
                with mmap(self.file.fileno(), 0, access=ACCESS_READ) as content:
                    at = content.find(MAGIC, at + 1)
                if at < 0:
                    break
                continue
            end = file.tell() + header.bytes
            if end > size:
                break
            self.damaged |= at > self.end
            self.places[header.label] = at
            at = self.end = end
        file.seek(0)
        is_ours = MAGIC.startswith(file.read(len(MAGIC)))
        file.detach()
        if not self.places and not is_ours:
            self.file.close()
            raise not_made_here("Fit: this file was not made here; give another folder, or move it", self.path)
        with suppress(OSError):
            self.cut()
