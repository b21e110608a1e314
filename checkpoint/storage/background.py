"""The saved states of one sweep in files, written and read by threads while the chain goes on."""

import os
import re
import shutil
import tempfile
import warnings
import weakref
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any

import numpy as np
import optree

from ..support.byte_sizes import format_bytes
from ..support.costs import GATHERED_BYTES, GATHERED_PARTS, GATHERED_STATE_BYTES, WAIT_WARNING_SECONDS
from .files import NAMESPACE, check_leaves, read_leaves, write_leaves
from .lock import Lock
from .pool import NUMBER, PackedStates, Pattern
from .states import copy_state, nbytes
from .storage import Session
from .worker import Job, Worker

__all__ = ["Batch", "DiskSession", "File", "Folder"]

LOCK, MADE_HERE = "lock", re.compile("checkpoint-[0-9a-f]{16}")  # of a folder: the name of its lock, and its own
SURVEYED: set[Path] = set()  # where this process has looked for abandoned folders


class DiskSession(Session):
    """The states of one sweep in files below `path` (None: a temporary folder); see `Session`.

    At most `queue` large states are in main memory at once, written or not."""

    def __init__(self, path: Path | None, queue: int) -> None:
        self._path, self._queue = path, queue
        self._files: dict[int, File] = {}  # of large states
        self._pool = PackedStates(GATHERED_STATE_BYTES)  # the small ones that are in main memory
        self._batches: dict[int, Batch] = {}  # in which a small state was written
        self._evicted: set[int] = set()  # those of them that are not in main memory
        self._bytes = self._made = 0
        self._resident: deque[File] = deque()  # the newest large states, which are in main memory; oldest first
        self._writing: deque[File | Batch] = deque()  # what else is being written; oldest first
        self._ahead: tuple[int, Job] | None = None  # one state in main memory, or on its way there
        self._reversing = False  # whether anything was loaded: from then on, the newest state is the next one needed
        self._folder: Folder | None = None
        self._process = os.getpid()
        self._began, self._waited, self._warned = monotonic(), 0.0, False  # seconds spent waiting for the disk

    def copy(self, state: Any) -> Any:
        """An independent copy of a state; see `Session.copy`."""
        return copy_state(state)

    def save(self, index: int, state: Any) -> None:
        """Have a copy of a state written in the background; see `Session.save`.

        Raises OSError if this state, or one saved before, cannot be written (a full disk), TypeError for a leaf that no file can hold."""
        self._here()
        if index in self._pool or index in self._files or index in self._evicted:
            raise ValueError(f"Disk: state {index} is saved already; drop it before saving it again")
        leaves: Sequence[Any]
        if type(state) is float:
            leaves, structure = (state,), NUMBER
        else:
            leaves, structure = optree.tree_flatten(state, none_is_leaf=True, namespace=NAMESPACE)
        if self._keeps(structure, index) and (size := self._pool.add(index, structure, leaves)) is not None:
            self._bytes += size
            if self._pool.nbytes > GATHERED_BYTES - GATHERED_BYTES // GATHERED_PARTS:
                self._evict()
        else:
            check_leaves(leaves)
            self._make_room()
            file = self._files[index] = self._file(index, "state", copy_state(leaves), structure)
            self._bytes += file.nbytes
            self._resident.append(file)
            if len(self._resident) >= self._queue:  # the next one will need its place
                self._start(self._resident[0])
        self.saves += 1
        count = len(self._files) + len(self._pool) + len(self._evicted)
        if count > self.peak_states:
            self.peak_states = count
        if self._bytes > self.peak_bytes:
            self.peak_bytes = self._bytes

    def load(self, index: int) -> Any:
        """A copy of a saved state; see `Session.load`."""
        self._here()
        if index in self._evicted:
            self._fetch(index)
        if (packed := self._pool.get(index)) is not None:
            state = packed[1][0] if packed[0] is NUMBER else packed[0].unflatten(packed[1])
        else:
            file = self._get(index, "load")
            self._reversing = True
            if file.leaves is not None:
                state = file.read()
            else:
                self.prefetch(index)
                assert self._ahead is not None
                state = self._waited_for(self._ahead[1], file)
            state = copy_state(state)
        self.loads += 1
        return state

    def prefetch(self, index: int) -> None:
        """Begin to read a state, unless it is in main memory; see `Session.prefetch`."""
        self._here()
        if index in self._pool or index in self._evicted:
            return
        file = self._get(index, "read")
        if file.leaves is None and (self._ahead is None or self._ahead[0] != index):
            self._ahead = index, self._open().reader.submit(file.read)

    def drop(self, index: int) -> None:
        """Remove a saved state; see `Session.drop`."""
        self._here()
        size = self._pool.remove(index)
        if size is None and index in self._evicted:
            self._evicted.remove(index)
            size = self._batches[index].sizes[index]
        if size is not None:
            self._bytes -= size
            batch = self._batches.pop(index, None)
            if batch is not None:
                batch.left -= 1
                if not batch.left:
                    self._remove_batch(batch)
            return
        file = self._get(index, "drop")
        self._bytes -= file.nbytes
        del self._files[index]
        if self._ahead is not None and self._ahead[0] == index:
            self._ahead[1].wait()
            self._ahead = None
        if file in self._resident:
            self._resident.remove(file)
        self._remove(file)
        if self._reversing and (elsewhere := [index for index, file in self._files.items() if file.leaves is None]):
            self.prefetch(max(elsewhere))

    def clear(self) -> None:
        """Stop writing and remove the folder; see `Session.clear`. If it is interrupted, it may be called again."""
        if self._folder is not None:
            self._folder.remove()
            self._finalizer.detach()
        for states in (self._files, self._resident, self._writing, self._pool, self._batches, self._evicted):
            states.clear()  # type: ignore[attr-defined]
        self._ahead = self._folder = None
        self._bytes, self._reversing = 0, False

    def indices(self) -> list[int]:
        """Indices of the saved states, ascending."""
        return sorted([*self._pool.indices(), *self._evicted, *self._files])

    def nbytes(self, index: int | None = None) -> int:
        """Bytes of one saved state, or of all, without the headers of the files; see `Session.nbytes`."""
        if index is None:
            return self._bytes
        if (size := self._pool.data_bytes(index)) is not None:
            return size
        return self._batches[index].sizes[index] if index in self._evicted else self._get(index, "measure").nbytes

    def __len__(self) -> int:
        return len(self._files) + len(self._pool) + len(self._evicted)

    def __contains__(self, index: object) -> bool:
        return index in self._pool or index in self._files or index in self._evicted

    def _keeps(self, structure: optree.PyTreeSpec, index: int) -> bool:
        """Return whether small states of this structure are gathered."""
        return True

    def _evict(self) -> None:
        """Have the oldest small states written, in one file, and free their memory."""
        while self._writing:  # what is written is a copy
            file = self._writing.popleft()
            self._waited_for(file.written, file)
        indices = self._pool.indices()[: max(len(self._pool) // GATHERED_PARTS, 1)]
        unwritten = [index for index in indices if index not in self._batches]
        if unwritten:
            batch = self._batch(unwritten)
            self._submit(batch, batch.write)
        for index in indices:
            self._pool.remove(index)
        self._evicted.update(indices)

    def _batch(self, indices: list[int]) -> "Batch":
        """A batch of small states that are in main memory, not yet written."""
        self._made += 1
        batch = self._new_batch(self._made)
        batch.fill(self._pool.batch(indices))
        self._batches.update(dict.fromkeys(indices, batch))
        return batch

    def _new_batch(self, number: int) -> "Batch":
        return Batch(self._open().path / f"{number:012d}.batch", number)

    def _fetch(self, index: int) -> None:
        """Take the states that were written together with this one back into main memory."""
        batch = self._batches[index]
        for index, structure, leaves in batch.read():
            if index in self._evicted and self._batches[index] is batch:
                self._pool.add(index, structure, leaves)
                self._evicted.discard(index)

    def _remove_batch(self, batch: "Batch") -> None:
        if not batch.inherited:
            if batch in self._writing:
                self._writing.remove(batch)
            if batch.written is not None and not batch.written.cancel():
                batch.written.result()
            batch.path.unlink(missing_ok=True)

    def _start(self, file: "File") -> None:
        """Have a state written that may not be yet."""
        if file.written is None:
            file.written = self._open().writer.submit(file.write)

    def _submit(self, file: "File | Batch", write: Callable[[], None]) -> None:
        """Have something written that is in main memory until then."""
        self._make_room()
        file.written = self._open().writer.submit(write)
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
            oldest.leaves = None
            self._resident.popleft()

    def _waited_for(self, job: Job | None, file: "File | Batch") -> Any:
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
                stacklevel=5,
            )
        return result

    def _file(self, index: int, kind: str, leaves: list[Any], structure: optree.PyTreeSpec) -> "File":
        return File(index, self._open().path / f"{index:012d}.{kind}", leaves, structure)

    def _remove(self, file: "File") -> None:
        """Remove a file, or see to it that it is not written."""
        if file.inherited or file.written is None:
            return
        if not file.written.cancel():
            file.written.result()
        file.path.unlink(missing_ok=True)

    def _get(self, index: int, verb: str) -> "File":
        try:
            return self._files[index]
        except KeyError:
            saved = f"saved are {self.indices()}; save it first"
            raise KeyError(f"Disk: cannot {verb} state {index}: {saved}") from None

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
            files: list[File | Batch] = [*self._files.values(), *self._batches.values()]
            for file in files:
                file.inherited, file.written = True, Job()


class Folder:
    """A private folder below `parent` (None: where temporary files are), one thread that writes into it, and one that reads."""

    def __init__(self, parent: Path | None) -> None:
        self.parent = parent
        self._name()
        self.writer, self.reader = Worker(), Worker()
        self.process = os.getpid()

    def open(self) -> None:
        """Make it."""
        if self.parent is not None:
            self.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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


class File:
    """One saved state."""

    def __init__(self, index: int, path: Path, leaves: list[Any], structure: optree.PyTreeSpec) -> None:
        self.index, self.path, self.structure = index, path, structure
        self.nbytes = nbytes(leaves)
        self.leaves: list[Any] | None = leaves  # while they are in main memory
        self.written: Job | None = None  # from when it has been put to the thread
        self.inherited = False  # from the process of which this one is a fork

    def write(self) -> None:
        assert self.leaves is not None
        write_leaves(self.path, self.index, self.leaves)

    def read(self) -> Any:
        leaves = self.leaves
        if leaves is None:
            leaves = read_leaves(self.path, self.index)
        return optree.tree_unflatten(self.structure, leaves)


class Batch:
    """Small states in one file."""

    what = "a batch of small states"

    def __init__(self, path: Path, number: int) -> None:
        self.path, self.number = path, number
        self.groups: list[tuple[Pattern, optree.PyTreeSpec | None, list[int], Any]] | None = None  # until they are written
        self.sizes: dict[int, int] = {}  # bytes of the leaves of each state
        self.structures: list[optree.PyTreeSpec] = []
        self.left = 0  # states that are of use
        self.written: Job | None = None
        self.inherited = False

    @property
    def nbytes(self) -> int:
        return sum(self.sizes.values())

    def fill(self, groups: list[tuple[Pattern, optree.PyTreeSpec, list[int], bytes]]) -> None:
        """Take what is to be written."""
        self.groups = list(groups)
        self.structures = [structure for _, structure, _, _ in groups]
        self.sizes = {index: pattern.nbytes for pattern, _, indices, _ in groups for index in indices}
        self.left = len(self.sizes)

    def leaves(self) -> list[Any]:
        """What goes into the file: of each pattern its text, the indices, the rows."""
        assert self.groups is not None
        parts = ((pattern.text(), np.array(indices, np.int64), np.frombuffer(rows, np.uint8)) for pattern, _, indices, rows in self.groups)
        return [leaf for part in parts for leaf in part]

    def write(self) -> None:
        write_leaves(self.path, self.number, self.leaves())
        self.groups = None

    def read(self) -> list[tuple[int, optree.PyTreeSpec, list[Any]]]:
        """Index, structure and leaves of every state."""
        groups = self.groups
        if groups is None:
            groups = [(pattern, None, indices, rows) for pattern, indices, rows in batch_of(self.read_leaves())]
        return [
            (index, structure, pattern.unpack(rows, i * pattern.size))
            for (pattern, _, indices, rows), structure in zip(groups, self.structures, strict=True)
            for i, index in enumerate(indices)
        ]

    def read_leaves(self) -> list[Any]:
        return read_leaves(self.path, self.number, what=self.what)


def batch_of(leaves: list[Any]) -> list[tuple[Pattern, list[int], memoryview]]:
    """What the leaves of the file of a batch say: pattern, indices and rows of each group."""
    return [(Pattern.read(leaves[i]), leaves[i + 1].tolist(), leaves[i + 2].data) for i in range(0, len(leaves), 3)]
