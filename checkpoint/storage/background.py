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

from ..support.costs import GATHERED_BYTES, UNWRITTEN_BYTES, WAIT_WARNING_SECONDS
from .codec import NAMESPACE, check_leaves, encode_records, read_records
from .files import Lock, make_folder, write_file
from .memory import MemorySession, Pattern, Record
from .states import copy_state, nbytes
from .storage import DamagedState
from .worker import Job, Worker

LOCK, MADE_HERE = "lock", re.compile("checkpoint-[0-9a-f]{16}")  # of a folder: the name of its lock, and its own
PARTS = UNWRITTEN_BYTES // GATHERED_BYTES  # of the small states in main memory, one of which is written at once
SURVEYED: set[Path] = set()  # where this process has looked for abandoned folders


class File:
    """Saved states in one file of a folder. `content`: the records that are to be written, while they are in main memory.
    `sizes`: bytes of the leaves of each state; `structures`: of each record."""

    def __init__(self, path: Path, folder: "Folder", content: list[Record] | None, sizes: dict[int, int]) -> None:
        self.path, self.folder, self.content, self.sizes = path, folder, content, sizes
        self.structures = [record.structure for record in content or ()]
        self.left = len(sizes)  # of the states that are of use
        self.is_batch = path.suffix == ".batch"  # of small states
        self.what = "a batch of small states" if self.is_batch else f"state {next(iter(sizes))}"
        self.written: Job | None = None  # from when it has been put to the thread
        self.lost: DamagedState | None = None  # where it is known that there is no such file

    @property
    def nbytes(self) -> int:
        return sum(self.sizes.values())

    def write(self) -> None:
        """Write the content, unless that is done."""
        if self.content is not None:
            with self.folder.writing():
                write_file(self.path, encode_records(self.content, self.folder.label(self.path.name)), self.what)

    def move(self) -> None:
        """Write the content, and free its memory."""
        self.write()
        self.content = None

    def read(self) -> Iterator[tuple[int, optree.PyTreeSpec, list[Any]]]:
        """Yield index, structure and leaves of every state, not copied if they are in main memory."""
        if self.lost is not None:
            raise self.lost
        records = [record.leaves() for record in self.content or ()]
        if self.content is None:
            records = read_records(self.path, self.folder.label(self.path.name), self.what, self.sizes)
        for rows, structure in zip(records, self.structures, strict=True):
            for index, leaves in rows.items():
                yield index, structure, leaves

    def state(self) -> Any:
        """Return the only state, not copied if it is in main memory."""
        ((_, structure, leaves),) = self.read()
        return structure.unflatten(leaves)


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
        self._files: dict[int, File] = {}  # of large states, and of small ones that were written
        self._resident: deque[File] = deque()  # of the newest large states, which are in main memory; oldest first
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
            self._evict()
            return size
        self._make_room()
        file = self._large[index] = self._state_file("state", index, structure, copy_state(list(leaves)))
        self._resident.append(file)
        if len(self._resident) >= self._queue:  # the next one will need its place
            self._start(self._resident[0])
        return file.nbytes

    def _take(self, index: int, file: Any) -> Any:
        self._here()
        self._reversing = True
        if file.is_batch:  # whose states are taken back into main memory
            for other, structure, leaves in file.read():
                if self._large.get(other) is file:
                    self._pool.add(other, structure, leaves)
                    del self._large[other]
            structure, leaves = self._pool.get(index)  # type: ignore[misc]  # it is there now
            return structure.unflatten(leaves)
        if file.content is not None:
            return copy_state(file.state())
        self.prefetch(index)
        assert self._ahead is not None
        return copy_state(self._waited_for(self._ahead[1], file))

    def prefetch(self, index: int) -> None:
        """Begin to read a state, unless it is in main memory; see `Session.prefetch`."""
        self._here()
        if index in self._pool:
            return
        file = self._get(index, "read")
        if not file.is_batch and file.content is None and (self._ahead is None or self._ahead[0] != index):
            self._ahead = index, self._open().reader.submit(file.state)

    def drop(self, index: int) -> None:
        self._here()
        super().drop(index)
        if (file := self._files.pop(index, None)) is None:
            return
        if self._ahead is not None and self._ahead[0] == index:
            self._ahead[1].wait()
            self._ahead = None
        file.left -= 1
        if not file.left:
            for files in (self._resident, self._writing):
                if file in files:
                    files.remove(file)
            self._discard(file)
        on_disk = (index for index, file in self._large.items() if not file.is_batch and file.content is None)
        if self._reversing and not file.is_batch and (newest := max(on_disk, default=None)) is not None:
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
        """If small states take too much memory, write the oldest of them into one file and free their memory."""
        if self._pool.nbytes <= UNWRITTEN_BYTES - UNWRITTEN_BYTES // PARTS:
            return
        while self._writing:  # what is written is a copy
            file = self._writing.popleft()
            self._waited_for(file.written, file)
        indices = self._pool.indices()[: max(len(self._pool) // PARTS, 1)]
        unwritten = [index for index in indices if index not in self._files]
        if unwritten:
            self._submit(self._batch(unwritten))
        for index in indices:
            self._pool.remove(index)
            self._large[index] = self._files[index]

    def _batch(self, indices: list[int]) -> File:
        """Return a file, not yet written, for small states that are in main memory."""
        records = self._pool.batch(indices)
        return self._file(self._new_path("batch"), records, {k: record.pattern.nbytes for record in records for k in record.indices})

    def _state_file(self, kind: str, index: int, structure: optree.PyTreeSpec, leaves: list[Any]) -> File:
        """Return a file, not yet written, for a single state."""
        record = Record(Pattern(check_leaves(leaves)), structure, [index], leaves)
        return self._file(self._new_path(kind, index), [record], {index: nbytes(leaves)})

    def _start(self, file: File) -> None:
        """Write a file in the background, unless that has begun."""
        if file.written is None:
            file.written = self._open().writer.submit(file.write if file in self._resident else file.move)

    def _submit(self, file: File) -> None:
        """Write a file in the background, and free its memory."""
        self._make_room()
        self._start(file)
        self._writing.append(file)

    def _make_room(self) -> None:
        """Wait until there is room for one more, and raise what the thread raised."""
        while self._writing and (len(self._writing) >= self._queue or self._writing[0].written.done):  # type: ignore[union-attr]
            file = self._writing.popleft()
            self._waited_for(file.written, file)
        if self._resident and (written := self._resident[0].written) is not None and written.done:
            written.result()
        while len(self._resident) >= self._queue:
            self._start(oldest := self._resident[0])
            self._waited_for(oldest.written, oldest)
            oldest.content = None
            self._resident.popleft()

    def _waited_for(self, job: Job | None, file: File) -> Any:
        """Return the result of a job; warn if much of the time is spent waiting."""
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

    def _file(self, path: Path, content: list[Record], sizes: dict[int, int]) -> File:
        file = File(path, self._open(), content, sizes)
        self._files.update(dict.fromkeys(sizes, file))
        return file

    def _new_path(self, kind: str, index: int | None = None) -> Path:
        """Return the path of a new file: of the state `index`, or of a batch."""
        if index is None:
            self._made += 1
            index = self._made
        return self._open().path / f"{index:012d}.{kind}"

    def _discard(self, file: File) -> None:
        """Remove a file of which nothing is of use any more, or see to it that it is not written."""
        if file.written is not None and not file.written.cancel():
            file.written.result()
            file.path.unlink(missing_ok=True)

    def _open(self) -> "Folder":
        """Return the folder of this sweep with its two threads, made when the first state is saved."""
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
            for file in self._files.values():
                file.written = Job()  # which can be cancelled, so that nothing is removed


class Folder:
    """A private folder below `parent` (None: where temporary files are), one thread that writes into it, and one that reads."""

    def __init__(self, parent: Path | None) -> None:
        self.parent = parent
        self._name()
        self.writer, self.reader = Worker(), Worker()
        self.error: BaseException | None = None  # of the writer, which then stops
        self.process = os.getpid()

    def label(self, name: str) -> str:
        """Return the label of the records in a file of this name."""
        return ""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Guard each write of the thread: after an error nothing more is written, or a later file could claim what an earlier one lacks."""
        if self.error is not None:
            raise self.error
        try:
            yield
        except BaseException as error:
            self.error = error
            raise

    def open(self) -> None:
        if self.parent is not None:
            make_folder(self.parent, "Disk")
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
        """Stop both threads and remove the folder, called from a third one."""
        self.writer.stop(cancel=True)
        self.reader.stop(cancel=True)
        self.lock.release()
        shutil.rmtree(self.path, ignore_errors=True)


def remove_abandoned(parent: Path) -> None:
    """Remove, once a process, the folders whose processes were killed: nobody holds their locks."""
    if parent in SURVEYED:
        return
    SURVEYED.add(parent)
    with os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if MADE_HERE.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)]
    for path in found:
        lock = Lock(path / LOCK)
        with suppress(OSError):
            if (not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()) and lock.exists():
                lock.acquire()
                lock.release()
                shutil.rmtree(path, ignore_errors=True)
