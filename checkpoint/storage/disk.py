"""Saved states in files, written and read while the chain goes on."""

import os
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optree

from ..checks import whole_number
from .files import NAMESPACE, check_leaves, read_leaves, write_leaves
from .states import copy_state, nbytes
from .storage import Session, Storage

__all__ = ["Disk", "DiskSession"]


@dataclass(frozen=True)
class Disk(Storage):
    """Keep states in files, one a state, in a folder of their own for every sweep.

    A state is copied when it is saved, and a thread writes it while the chain goes on. In the reverse sweep the state that
    is needed next is read ahead. So a few states are in main memory too: up to `queue` that are being written, and one
    that has been read.

    A file is written under a temporary name and renamed, and every byte is checked when it is read. If it cannot be read
    back, the sweep warns, naming the file, and computes the state again from an earlier one. Files hold arrays in npy format
    and JSON, no pickle, so reading one runs nothing.

    The folder (mode 0700) is removed when the reverse sweep ends, when anything raises, when the sweep is lost, and when the
    interpreter exits.

    With `resume`, `path` itself is the folder, and what is in it outlives the process: kill it at any moment, make the same
    call again, and only what was not yet on the disk is computed again, to the same bits. The folder also takes x_N and the
    cotangent after every pull; each file is forced onto the disk (fsync), which costs some milliseconds in the background. A
    call that differs in the step's source, in the token, in x_0, in the schedule or in the number of steps is refused; so is
    a second process. The files are removed when the reverse sweep has ended. *Danger:* what a step closes over is not
    compared; hand it in as the token.

    Parameters
    ----------
    path : str or Path, optional
        Folder in which the folders of the sweeps are made, and made itself if it is not there. The default is the system's
        folder for temporary files; mind that this may be in main memory.
    queue : int
        Most states waiting to be written, at least 1: beyond that, saving waits.
    resume : bool
        Keep the files when the sweep is interrupted, and go on from those that are found in `path`, which has to be given.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, or `resume` goes without `path`.

    Examples
    --------
    >>> session = Disk().open()
    >>> session.save(0, {"u": 4.5, "name": "run"})
    >>> session.load(0), 0 in session, session.nbytes()
    ({'u': 4.5, 'name': 'run'}, True, 8)
    >>> session.clear()
    """

    path: str | os.PathLike[str] | None = None
    queue: int = 2
    resume: bool = False

    def __post_init__(self) -> None:
        if self.path is not None:
            try:
                object.__setattr__(self, "path", Path(self.path))
            except TypeError:
                raise TypeError(f"Disk: path must be the name of a folder, got {self.path!r}") from None
        hint = "give the number of states that may wait to be written"
        object.__setattr__(self, "queue", whole_number(self.queue, where="Disk", argument="queue", least=1, hint=hint))
        if self.resume and self.path is None:
            raise ValueError("Disk: resume=True needs a path: the folder to go on from, one for each sweep")

    def open(self) -> "DiskSession":
        """A new, empty session. Its folder is made when something is saved.

        Returns
        -------
        DiskSession
        """
        if self.resume:
            from .kept import KeptSession  # which is made of this one

            return KeptSession(Path(self.path), self.queue)
        return DiskSession(None if self.path is None else Path(self.path), self.queue)


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
    >>> session = Disk().open()
    >>> session.save(3, 1.0)
    >>> session.load(4)
    Traceback (most recent call last):
    ...
    KeyError: 'Disk: cannot load state 4: saved are [3]; save it first'
    >>> session.clear()
    """

    def __init__(self, path: Path | None, queue: int) -> None:
        self._path, self._queue = path, queue
        self._files: dict[int, _File] = {}
        self._bytes = 0
        self._writing: deque[_File] = deque()  # oldest first
        self._ahead: tuple[int, Future[Any]] | None = None  # one state in main memory, or on its way there
        self._reversing = False  # whether anything was loaded: from then on, the newest state is the next one needed
        self._folder: _Folder | None = None
        self._close: Callable[[], Any] = int

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
            self._ahead = index, Future()
            self._ahead[1].set_result(state)

    def load(self, index: int) -> Any:
        """A copy of a saved state; see `Session.load`."""
        self._get(index, "load")
        self._reversing = True
        self.prefetch(index)
        assert self._ahead is not None
        state = copy_state(self._ahead[1].result())
        self.loads += 1
        return state

    def prefetch(self, index: int) -> None:
        """Begin to read a state, unless it is in main memory; see `Session.prefetch`."""
        file = self._get(index, "read")
        if self._ahead is None or self._ahead[0] != index:
            self._ahead = index, self._open().reader.submit(file.read)

    def drop(self, index: int) -> None:
        """Remove a saved state; see `Session.drop`."""
        file = self._get(index, "drop")
        del self._files[index]
        self._bytes -= file.nbytes
        if self._ahead is not None and self._ahead[0] == index:
            wait([self._ahead[1]])
            self._ahead = None
        if file in self._writing:
            self._writing.remove(file)
        if not file.written.cancel():
            file.written.result()
        file.path.unlink(missing_ok=True)
        if self._reversing and self._files:
            self.prefetch(max(self._files))

    def clear(self) -> None:
        """Stop writing and remove the folder; see `Session.clear`."""
        self._files.clear()
        self._writing.clear()
        self._ahead = self._folder = None
        self._bytes, self._reversing = 0, False
        self._close()

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

    def _write(self, index: int, state: Any, kind: str) -> "_File":
        """Have a state, the caller's own, written as soon as the queue has room."""
        leaves, structure = optree.tree_flatten(state, none_is_leaf=True, namespace=NAMESPACE)
        check_leaves(leaves)
        while self._writing and (len(self._writing) == self._queue or self._writing[0].written.done()):
            self._writing.popleft().written.result()
        folder = self._open()
        file = _File(index, folder.path / f"{index:012d}.{kind}", leaves, structure)
        file.written = folder.writer.submit(file.write)
        self._writing.append(file)
        return file

    def _get(self, index: int, verb: str) -> "_File":
        try:
            return self._files[index]
        except KeyError:
            saved = f"saved are {self.indices()}; save it first"
            raise KeyError(f"Disk: cannot {verb} state {index}: {saved}") from None

    def _open(self) -> "_Folder":
        """The folder of this sweep and its two threads, made when the first state is saved."""
        if self._folder is None:
            folder = self._folder = _Folder(self._path)
            self._close = weakref.finalize(self, folder.remove)
        return self._folder


class _Folder:
    """A folder that nobody else has, a thread that writes into it, and one that reads from it."""

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=path))  # mode 0700
        self.writer = ThreadPoolExecutor(1, "checkpoint-writer")
        self.reader = ThreadPoolExecutor(1, "checkpoint-reader")
        self.process = os.getpid()

    def remove(self) -> None:
        """Stop both threads, and remove the folder with what is in it."""
        if os.getpid() != self.process:  # a fork of the process that owns it
            return
        try:
            for pool in (self.writer, self.reader):
                pool.shutdown(cancel_futures=True)
        except RuntimeError:  # called by the garbage collector in one of the threads
            pass
        finally:
            shutil.rmtree(self.path, ignore_errors=True)


class _File:
    """One saved state."""

    def __init__(self, index: int, path: Path, leaves: list[Any], structure: optree.PyTreeSpec) -> None:
        self.index, self.path, self.structure = index, path, structure
        self.nbytes = nbytes(leaves)
        self.leaves: list[Any] | None = leaves  # until they are written
        self.written: Future[None] = Future()

    def write(self) -> None:
        assert self.leaves is not None
        write_leaves(self.path, self.index, self.leaves)
        self.leaves = None

    def read(self) -> Any:
        leaves = self.leaves
        if leaves is None:
            leaves = read_leaves(self.path, self.index)
        return optree.tree_unflatten(self.structure, leaves)
