"""The saved states of one sweep in files, written and read by threads while the chain goes on."""

import os
import shutil
import tempfile
import weakref
from _thread import start_new_thread
from collections import deque
from pathlib import Path
from secrets import token_hex
from typing import Any

import optree

from .files import NAMESPACE, check_leaves, read_leaves, write_leaves
from .states import copy_state, nbytes
from .storage import Session
from .worker import Job, Worker

__all__ = ["DiskSession", "File", "Folder"]


class DiskSession(Session):
    """The states of one sweep in files; see `Session` for the methods and counts.

    Parameters
    ----------
    path : Path or None
        Where the folder is made.
    queue : int
        Most states waiting to be written.

    Examples
    --------
    >>> session = DiskSession(None, queue=2)
    >>> session.save(3, 1.0)
    >>> session.load(4)
    Traceback (most recent call last):
    ...
    KeyError: 'Disk: cannot load state 4: saved are [3]; save it first'
    >>> session.clear()
    """

    def __init__(self, path: Path | None, queue: int) -> None:
        self._path, self._queue = path, queue
        self._files: dict[int, File] = {}
        self._bytes = 0
        self._writing: deque[File] = deque()  # oldest first
        self._ahead: tuple[int, Job] | None = None  # one state in main memory, or on its way there
        self._reversing = False  # whether anything was loaded: from then on, the newest state is the next one needed
        self._folder: Folder | None = None
        self._process = os.getpid()

    def copy(self, state: Any) -> Any:
        """An independent copy of a state; see `Session.copy`."""
        return copy_state(state)

    def save(self, index: int, state: Any) -> None:
        """Have a copy of a state written; see `Session.save`.

        Raises
        ------
        OSError
            If this state, or one saved before, cannot be written; a full disk, for instance.
        TypeError
            If a leaf cannot be written to a file.
        """
        self._here()
        if index in self._files:
            raise ValueError(f"Disk: state {index} is saved already; drop it before saving it again")
        state = copy_state(state)
        file = self._files[index] = self._write(index, state, "state")
        self._bytes += file.nbytes
        self.saves += 1
        self.peak_states = max(self.peak_states, len(self._files))
        self.peak_bytes = max(self.peak_bytes, self._bytes)
        self._ahead = None
        if self._reversing:
            self._ahead = index, Job(value=state)

    def load(self, index: int) -> Any:
        """A copy of a saved state; see `Session.load`."""
        self._here()
        self._get(index, "load")
        self._reversing = True
        self.prefetch(index)
        assert self._ahead is not None
        state = copy_state(self._ahead[1].result())
        self.loads += 1
        return state

    def prefetch(self, index: int) -> None:
        """Begin to read a state, unless it is in main memory; see `Session.prefetch`."""
        self._here()
        file = self._get(index, "read")
        if self._ahead is None or self._ahead[0] != index:
            self._ahead = index, self._open().reader.submit(file.read)

    def drop(self, index: int) -> None:
        """Remove a saved state; see `Session.drop`."""
        self._here()
        file = self._get(index, "drop")
        del self._files[index]
        self._bytes -= file.nbytes
        if self._ahead is not None and self._ahead[0] == index:
            self._ahead[1].wait()
            self._ahead = None
        self._remove(file)
        if self._reversing and self._files:
            self.prefetch(max(self._files))

    def clear(self) -> None:
        """Stop writing and remove the folder; see `Session.clear`. If it is interrupted, it may be called again."""
        if self._folder is not None:
            self._folder.remove()
            self._finalizer.detach()
        self._files.clear()
        self._writing.clear()
        self._ahead = self._folder = None
        self._bytes, self._reversing = 0, False

    def indices(self) -> list[int]:
        """Indices of the saved states, ascending."""
        return sorted(self._files)

    def nbytes(self, index: int | None = None) -> int:
        """Bytes of one saved state, or of all, without the headers of the files; see `Session.nbytes`."""
        return self._bytes if index is None else self._get(index, "measure").nbytes

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, index: object) -> bool:
        return index in self._files

    def _write(self, index: int, state: Any, kind: str) -> "File":
        """Have a state, the caller's own, written as soon as the queue has room."""
        leaves, structure = optree.tree_flatten(state, none_is_leaf=True, namespace=NAMESPACE)
        check_leaves(leaves)
        while self._writing and (len(self._writing) == self._queue or self._writing[0].written.done()):
            self._writing.popleft().written.result()
        file = self._file(index, kind, leaves, structure)
        file.written = self._open().writer.submit(file.write)
        self._writing.append(file)
        return file

    def _file(self, index: int, kind: str, leaves: list[Any], structure: optree.PyTreeSpec) -> "File":
        return File(index, self._open().path / f"{index:012d}.{kind}", leaves, structure)

    def _remove(self, file: "File") -> None:
        """Remove a file, or see to it that it is not written."""
        if file.inherited:
            return
        if file in self._writing:
            self._writing.remove(file)
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
            self._ahead = self._folder = None
            for file in self._files.values():
                file.inherited, file.written = True, Job()


class Folder:
    """A folder that nobody else has, a thread that writes into it, and one that reads from it.

    Parameters
    ----------
    parent : Path or None
        Where `open` makes it; None: where temporary files are.
    """

    def __init__(self, parent: Path | None) -> None:
        self.parent = parent
        self.path = (parent or Path(tempfile.gettempdir())) / f"checkpoint-{token_hex(8)}"
        self.writer, self.reader = Worker(), Worker()
        self.process = os.getpid()

    def open(self) -> None:
        """Make it."""
        if self.parent is not None:
            self.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700)

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
        shutil.rmtree(self.path, ignore_errors=True)


class File:
    """One saved state."""

    def __init__(self, index: int, path: Path, leaves: list[Any], structure: optree.PyTreeSpec) -> None:
        self.index, self.path, self.structure = index, path, structure
        self.nbytes = nbytes(leaves)
        self.leaves: list[Any] | None = leaves  # until they are written
        self.written = Job()
        self.inherited = False  # from the process of which this one is a fork

    def write(self) -> None:
        assert self.leaves is not None
        write_leaves(self.path, self.index, self.leaves)
        self.leaves = None

    def read(self) -> Any:
        leaves = self.leaves
        if leaves is None:
            leaves = read_leaves(self.path, self.index)
        return optree.tree_unflatten(self.structure, leaves)
