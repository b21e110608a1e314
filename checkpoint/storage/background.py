"""The saved states of one sweep in files, written and read by threads while the chain goes on."""

import os
import re
import shutil
import tempfile
import warnings
import weakref
from _thread import start_new_thread
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any

import optree

from dualad.support.byte_sizes import format_bytes

from ..support.costs import GATHERED_BYTES, HELD_BYTES, WAIT_WARNING_SECONDS
from .codec import NAMESPACE, check_leaves, encode_leaves, encode_rows, read_leaves, read_records
from .files import Lock, made_folder, write_file
from .memory import MemorySession, Pattern
from .states import copy_state, nbytes
from .storage import DamagedState
from .worker import Job, Worker

LOCK, MADE_HERE = "lock", re.compile("checkpoint-[0-9a-f]{16}")  # of a folder: the name of its lock, and its own
PARTS = HELD_BYTES // GATHERED_BYTES  # of the small states in main memory, one of which is written at once
SURVEYED: set[Path] = set()  # where this process has looked for abandoned folders


class File:
    """Saved states in one file of a folder. `content`: what is to be written, while it is in main memory."""

    def __init__(self, path: Path, folder: "Folder", what: str, content: Any, sizes: dict[int, int]) -> None:
        self.path, self.folder, self.what, self.content = path, folder, what, content
        self.sizes = sizes  # bytes of the leaves of each state
        self.written: Job | None = None  # from when it has been put to the thread
        self.inherited = False  # from the process of which this one is a fork

    @property
    def nbytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def label(self) -> str:
        """What the records in it bear."""
        return self.folder.label(self.path.name)

    def blocks(self) -> list[Any]:
        """The bytes of the content."""
        raise NotImplementedError

    def write(self) -> None:
        """Write the content, unless that is done."""
        if self.content is not None:
            with self.folder.writing():
                write_file(self.path, self.blocks(), self.what)

    def move(self) -> None:
        """Write the content, and free its memory."""
        self.write()
        self.content = None

    def remove(self) -> None:
        """Remove the file, or see to it that it is not written."""
        if self.inherited or self.written is None:
            return
        if not self.written.cancel():
            self.written.result()
        self.path.unlink(missing_ok=True)


class StateFile(File):
    """The file of one large state, whose content are its leaves."""

    def __init__(self, path: Path, folder: "Folder", index: int, leaves: list[Any], structure: optree.PyTreeSpec) -> None:
        super().__init__(path, folder, f"state {index}", leaves, {index: nbytes(leaves)})
        self.index, self.structure = index, structure
        self.lost: DamagedState | None = None  # where it is known that there is no such file

    def blocks(self) -> list[Any]:
        return encode_leaves(self.index, self.content, self.label)

    def read(self) -> Any:
        """The state, not copied if it is in main memory."""
        if self.lost is not None:
            raise self.lost
        leaves = self.content
        return self.structure.unflatten(read_leaves(self.path, self.index, self.label) if leaves is None else leaves)


class Batch(File):
    """The file of many small states, whose content are patterns, indices and rows; `left` of the states are of use."""

    def __init__(self, path: Path, folder: "Folder", groups: list[tuple[Pattern, optree.PyTreeSpec, list[int], bytes]]) -> None:
        sizes = {index: pattern.nbytes for pattern, _, indices, _ in groups for index in indices}
        super().__init__(path, folder, "a batch of small states", groups, sizes)
        self.structures = [structure for _, structure, _, _ in groups]
        self.left = len(sizes)

    def blocks(self) -> list[Any]:
        records = [encode_rows(pattern, indices, rows, self.label) for pattern, _, indices, rows in self.content]
        return [block for record in records for block in record]

    def records(self) -> list[dict[int, list[Any]]]:
        return read_records(self.path, self.label, self.what)

    def read(self) -> list[tuple[int, optree.PyTreeSpec, list[Any]]]:
        """Index, structure and leaves of every state."""
        groups = self.content
        if groups is None:
            records = [list(rows.items()) for rows in self.records()]
        else:
            records = [[(index, pattern.unpack(rows, i * pattern.size)) for i, index in enumerate(k)] for pattern, _, k, rows in groups]
        return [(index, structure, leaves) for rows, structure in zip(records, self.structures, strict=True) for index, leaves in rows]


class DiskSession(MemorySession):
    """The states of one sweep in files below `path` (None: a temporary folder); see `Session`.
    At most `queue` large states are in main memory at once, written or not."""

    name, namespace = "Disk", NAMESPACE

    def __init__(self, path: Path | None, queue: int) -> None:
        super().__init__(largest=GATHERED_BYTES)  # what is not in the pool: large states, and small ones that were evicted from it
        self._path, self._queue = path, queue
        self._made, self._process = 0, os.getpid()
        self._forget()
        self._began, self._waited, self._warned = monotonic(), 0.0, False  # seconds spent waiting for the disk

    def _forget(self) -> None:
        self._batches: dict[int, Batch] = {}  # in which a small state was written
        self._resident: deque[StateFile] = deque()  # the newest large states, which are in main memory; oldest first
        self._writing: deque[File] = deque()  # what else is being written; oldest first
        self._ahead: tuple[int, Job] | None = None  # one state in main memory, or on its way there
        self._reversing = False  # whether anything was loaded: from then on, the newest state is the next one needed
        self._folder: Folder | None = None

    def _put(self, index: int, state: Any) -> int:
        """Have a copy of a state written in the background, and return its bytes.
        Raises OSError if this state, or one saved before, cannot be written (a full disk), TypeError for a leaf that no file can hold."""
        self._here()
        leaves, structure = self._flat(state)
        self._check_structure(index, structure)
        size = self._pool.add(index, structure, leaves)
        if size is not None:
            if self._pool.nbytes > HELD_BYTES - HELD_BYTES // PARTS:
                self._evict()
            return size
        check_leaves(leaves)
        self._make_room()
        file = self._large[index] = self._file(index, "state", copy_state(list(leaves)), structure)
        self._resident.append(file)
        if len(self._resident) >= self._queue:  # the next one will need its place
            self._start(self._resident[0])
        return file.nbytes

    def _take(self, index: int, file: Any) -> Any:
        self._here()
        self._reversing = True
        if isinstance(file, Batch):
            self._fetch(file)
            structure, leaves = self._pool.get(index)  # type: ignore[misc]  # it is there now
            return structure.unflatten(leaves)
        if file.content is not None:
            return copy_state(file.read())
        self.prefetch(index)
        assert self._ahead is not None
        return copy_state(self._waited_for(self._ahead[1], file))

    def prefetch(self, index: int) -> None:
        """Begin to read a state, unless it is in main memory; see `Session.prefetch`."""
        self._here()
        if index in self._pool:
            return
        file = self._get(index, "read")
        if isinstance(file, StateFile) and file.content is None and (self._ahead is None or self._ahead[0] != index):
            self._ahead = index, self._open().reader.submit(file.read)

    def drop(self, index: int) -> None:
        self._here()
        super().drop(index)
        batch = self._batches.pop(index, None)
        if batch is not None:
            batch.left -= 1
            if not batch.left:
                if batch in self._writing:
                    self._writing.remove(batch)
                self._discard(batch)

    def _freed(self, index: int, file: Any) -> None:
        if isinstance(file, StateFile):
            if self._ahead is not None and self._ahead[0] == index:
                self._ahead[1].wait()
                self._ahead = None
            if file in self._resident:
                self._resident.remove(file)
            self._discard(file)
            there = (other for other, file in self._large.items() if isinstance(file, StateFile) and file.content is None)
            if self._reversing and (newest := max(there, default=None)) is not None:
                self.prefetch(newest)

    def _size(self, index: int, file: File) -> int:
        return file.sizes[index]

    def clear(self) -> None:
        """Stop writing and remove the folder; see `Session.clear`. If it is interrupted, it may be called again."""
        if self._folder is not None:
            self._folder.remove()
            self._finalizer.detach()
        super().clear()
        self._forget()

    def _check_structure(self, index: int, structure: optree.PyTreeSpec) -> None:
        """Raise where a state must not have this structure."""

    def _evict(self) -> None:
        """Have the oldest small states written, in one file, and free their memory."""
        while self._writing:  # what is written is a copy
            file = self._writing.popleft()
            self._waited_for(file.written, file)
        indices = self._pool.indices()[: max(len(self._pool) // PARTS, 1)]
        unwritten = [index for index in indices if index not in self._batches]
        if unwritten:
            self._submit(self._batch(unwritten))
        for index in indices:
            self._pool.remove(index)
            self._large[index] = self._batches[index]

    def _batch(self, indices: list[int]) -> Batch:
        """A batch of small states that are in main memory, not yet written."""
        batch = Batch(self._new_path("batch"), self._open(), self._pool.batch(indices))
        self._batches.update(dict.fromkeys(indices, batch))
        return batch

    def _fetch(self, batch: Batch) -> None:
        """Take the states that were written together back into main memory, except those that are there."""
        for index, structure, leaves in batch.read():
            if self._large.get(index) is batch:
                self._pool.add(index, structure, leaves)
                del self._large[index]

    def _start(self, file: File) -> None:
        """Have a state written that may not be yet."""
        if file.written is None:
            file.written = self._open().writer.submit(file.move if isinstance(file, Batch) else file.write)

    def _submit(self, file: File) -> None:
        """Have something written that is in main memory until then."""
        self._make_room()
        file.written = self._open().writer.submit(file.move)
        self._writing.append(file)

    def _make_room(self) -> None:
        """Wait until there is room for one more, and raise what the thread raised."""
        while self._writing and (len(self._writing) >= self._queue or self._writing[0].written.done()):  # type: ignore[union-attr]
            file = self._writing.popleft()
            self._waited_for(file.written, file)
        if self._resident and (written := self._resident[0].written) is not None and written.done():
            written.result()
        while len(self._resident) >= self._queue:
            self._start(oldest := self._resident[0])
            self._waited_for(oldest.written, oldest)
            oldest.content = None
            self._resident.popleft()

    def _waited_for(self, job: Job | None, file: File) -> Any:
        """The result of a thread; it warns where much of the time is spent waiting for them."""
        assert job is not None
        started = monotonic()
        result = job.result()
        ended = monotonic()
        self._waited += ended - started
        if not self._warned and self._waited > max(WAIT_WARNING_SECONDS, (ended - self._began) / 4):
            self._warned = True
            warnings.warn(
                f"Disk: the sweep waited {self._waited:.3g} s of {ended - self._began:.3g} s for states of {format_bytes(file.nbytes)}. "
                f"Use Disk(queue={2 * self._queue + 4}) or Tiered, a schedule with fewer slots, or a faster disk",
                RuntimeWarning,
                stacklevel=7,
            )
        return result

    def _file(self, index: int, kind: str, leaves: list[Any], structure: optree.PyTreeSpec) -> StateFile:
        return StateFile(self._new_path(kind, index), self._open(), index, leaves, structure)

    def _new_path(self, kind: str, index: int | None = None) -> Path:
        """The path of a new file: of the state `index`, or of a batch."""
        if index is None:
            self._made += 1
            index = self._made
        return self._open().path / f"{index:012d}.{kind}"

    def _discard(self, file: File) -> None:
        """Remove a file of which nothing is of use any more."""
        file.remove()

    def _open(self) -> "Folder":
        """The folder of this sweep and its two threads, made when the first state is saved."""
        if self._folder is None:
            self._folder = self._make_folder()  # which has nothing yet that an interrupt could lose
            self._finalizer = weakref.finalize(self, self._folder.remove)
            try:
                self._folder.open()
            except BaseException:
                self.clear()
                raise
        return self._folder

    def _make_folder(self) -> "Folder":
        return Folder(self._path)

    def _here(self) -> None:
        """After a fork, go on without the threads and the folder of the parent, which keeps them; its files are read only."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._writing.clear()
            self._resident.clear()  # what is in main memory stays there
            self._ahead = self._folder = None
            for file in (*self._large.values(), *self._batches.values()):
                file.inherited, file.written = True, Job()


class Folder:
    """A private folder below `parent` (None: where temporary files are), one thread that writes into it, and one that reads."""

    def __init__(self, parent: Path | None) -> None:
        self.parent = parent
        self._name()
        self.writer, self.reader = Worker(), Worker()
        self.process = os.getpid()

    def label(self, name: str) -> str:
        """What the records in a file of this name bear."""
        return ""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """What the thread writes."""
        yield

    def open(self) -> None:
        if self.parent is not None:
            made_folder(self.parent, "Disk")
        remove_abandoned(self.path.parent)
        while not self.lock.held():
            self.path.mkdir(mode=0o700)
            try:
                self.lock.acquire()
            except (BlockingIOError, FileNotFoundError):  # another process took it for abandoned before it was locked
                self._name()
            except OSError:  # a file system without locks, or a full one: nobody takes a folder without the file for abandoned
                (self.path / LOCK).unlink(missing_ok=True)
                break

    def _name(self) -> None:
        self.path = (self.parent or Path(tempfile.gettempdir())) / f"checkpoint-{token_hex(8)}"
        self.lock = Lock(self.path / LOCK)

    def remove(self) -> None:
        """Stop both threads, and remove the folder with what is in it; may be called again."""
        if os.getpid() != self.process:  # a fork of the process that owns it
            return
        if self.writer.is_current() or self.reader.is_current():  # called by the garbage collector, which must not wait for itself
            start_new_thread(self.remove, ())
            return
        self.stop()

    def stop(self) -> None:
        """Do what `remove` does, in a thread that can wait for those two."""
        self.writer.stop(cancel=True)
        self.reader.stop(cancel=True)
        self.lock.release()
        shutil.rmtree(self.path, ignore_errors=True)


def remove_abandoned(parent: Path) -> None:
    """Remove, once a process, the folders of processes that a signal has ended: nobody holds their locks."""
    if parent in SURVEYED:
        return
    SURVEYED.add(parent)
    with os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if MADE_HERE.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)]
    for path in found:
        lock = Lock(path / LOCK)
        with suppress(OSError):
            if (not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()) and lock.found():
                lock.acquire()
                lock.release()
                shutil.rmtree(path, ignore_errors=True)
