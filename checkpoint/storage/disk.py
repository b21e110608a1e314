"""Saved states in files, written and read while the chain goes on."""

import os
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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

    Parameters
    ----------
    path : str or Path, optional
        Folder in which the folders of the sweeps are made, and made itself if it is not there. The default is the system's
        folder for temporary files; mind that this may be in main memory.
    queue : int
        Most states waiting to be written, at least 1: beyond that, saving waits.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind.

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

    def __post_init__(self) -> None:
        if self.path is not None:
            try:
                object.__setattr__(self, "path", Path(self.path))
            except TypeError:
                raise TypeError(f"Disk: path must be the name of a folder, got {self.path!r}") from None
        hint = "give the number of states that may wait to be written"
        object.__setattr__(self, "queue", whole_number(self.queue, where="Disk", argument="queue", least=1, hint=hint))

    def open(self) -> "DiskSession":
        """A new, empty session. Its folder is made when something is saved.

        Returns
        -------
        DiskSession
        """
        return DiskSession(self.path, self.queue)


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

    def __init__(self, path: Any, queue: int) -> None:
        self._path, self._queue = path, queue
        self._files: dict[int, _File] = {}
        self._writing: deque[_File] = deque()  # in the order in which they were saved
        self._bytes = 0
        self._ahead: tuple[int, Callable[[], Any]] | None = None  # a state in main memory, or on its way there
        self._reading = False  # whether anything has been loaded: the newest state is then held in main memory
        self._pool: ThreadPoolExecutor | None = None
        self._folder: Path | None = None
        self._close = lambda: None

    def copy(self, state: Any) -> Any:
        """An independent copy of a state; see `Session.copy`."""
        return copy_state(state)

    def save(self, index: int, state: Any) -> None:
        """Have a copy of a state written; see `Session.save`.

        Raises
        ------
        OSError
            If this state, or one that was saved before, cannot be written: a full disk, for instance.
        TypeError
            If a leaf cannot be written to a file.
        """
        if index in self._files:
            raise ValueError(f"Disk: state {index} is saved already; drop it before saving it again")
        state = copy_state(state)
        leaves, structure = optree.tree_flatten(state, none_is_leaf=True, namespace=NAMESPACE)
        check_leaves(leaves)
        while self._writing and (len(self._writing) >= self._queue or self._writing[0].written.done()):
            self._writing.popleft().written.result()
        folder, pool = self._open()
        file = _File(folder / f"{index:012d}.state", structure, nbytes(leaves), leaves)
        file.written = pool.submit(file.write, index)
        self._writing.append(file)
        self._files[index] = file
        self._bytes += file.nbytes
        self.saves += 1
        self.peak_states = max(self.peak_states, len(self._files))
        self.peak_bytes = max(self.peak_bytes, self._bytes)
        self._ahead = (index, lambda: state) if self._reading else None

    def load(self, index: int) -> Any:
        """A copy of a saved state; see `Session.load`."""
        file = self._file(index, "load")
        self._reading = True
        if self._ahead is None or self._ahead[0] != index:
            self._ahead = None
            self.prefetch(index)
        state = self._ahead[1]()
        self.loads += 1
        ...

    def prefetch(self, index: int) -> None:
        """Begin to read a state; see `Session.prefetch`."""
