"""The saved states of one sweep in files that outlive the process, so that another process can go on from them.

The files are the journal. Every action of the schedule has a number, its point, and a file bears in its name the point at which
it was written: the state that a Save named, the cotangent after a Reverse, x_N and x_{N-1} between the two sweeps. One thread
writes them in this order, each whole and onto the disk itself, and removes what is no longer needed only after the next one. So
whenever the process ends, the file of the highest point says how far it came, and all that was saved at that point is there.

What a step leaves behind besides its state is a row, one a step, in a log for each of the two sweeps. Rows are handed to the system
before the next file is given to the thread, which has them on the disk itself before it writes that file.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import optree

from .background import DiskSession, File
from .files import NAMESPACE, read_label, read_leaves, write_leaves
from .folder import KeptFolder, Mark, remove_files
from .log import Log
from .states import copy_state, nbytes
from .worker import Job

__all__ = ["KeptSession"]


class KeptSession(DiskSession):
    """The states of one sweep in files that outlive the process; see `Session` for the methods and counts.

    `clear` leaves the files for another process; `finish` removes them.

    Parameters
    ----------
    path : Path
        The folder of the files.
    queue : int
        Most states waiting to be written.
    shared : bool
        Whether there may be other files in the folder.

    Attributes
    ----------
    point : int
        Number of the action under way, which whoever executes them has to set.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp())
    >>> session = KeptSession(path, queue=2)
    >>> session.begin({"steps": 9})
    []
    >>> session.point = 1
    >>> session.save(0, 4.5)
    >>> session.clear()
    >>> [(mark.point, mark.index, mark.kind) for mark in session.begin({"steps": 9})]
    [(1, 0, 'state')]
    >>> session.finish()
    >>> path.exists()
    False
    """

    def __init__(self, path: Path, queue: int, shared: bool = False) -> None:
        super().__init__(path, queue)
        self.path, self._shared = path, shared
        self.point = 0
        self._superseded: list[Path] = []  # removed when the next file is on the disk
        self._cotangent: _KeptFile | None = None
        self._structure: optree.PyTreeSpec | None = None  # of all states

    def begin(self, call: Mapping[str, Any]) -> list[Mark]:
        """Lock the folder, and find what an earlier process left in it.

        Parameters
        ----------
        call : mapping
            What says that it was the same call, in values that go into JSON.

        Returns
        -------
        list of Mark
            In the order in which they were written.

        Raises
        ------
        ValueError, FileExistsError, DamagedState
            As `KeptFolder.begin` does.
        BlockingIOError
            If a sweep is at work in this folder.
        """
        self.point = 0
        return self._opened().begin(call)

    def adopt(self, indices: Iterable[int], like: Any, marks: list[Mark]) -> None:
        """Take over the files of an earlier process: those of the states that are saved, and of the newest cotangent.

        Parameters
        ----------
        indices : iterable of int
            Which states are saved. One whose file is gone is found to be damaged when it is loaded.
        like : pytree
            A state, for the structure and the size of the others.
        marks : list of Mark
            What `begin` found; all other files are removed.
        """
        leaves, structure = optree.tree_flatten(like, none_is_leaf=True, namespace=NAMESPACE)
        self._structure = structure
        paths = {mark.index: mark.path for mark in marks if mark.kind == "state"}
        for index in indices:
            path = paths.get(index, self.path / f"{0:015d}-{index:012d}.state")
            self._files[index] = self._adopted(index, path, structure, nbytes(leaves))
            self._bytes += self._files[index].nbytes
        self.peak_states, self.peak_bytes = max(self.peak_states, len(self._files)), max(self.peak_bytes, self._bytes)
        cotangents = [mark for mark in marks if mark.kind == "cotangent"]
        if cotangents:
            self._cotangent = self._adopted(cotangents[-1].index, cotangents[-1].path, structure, 0)
        used = {file.path for file in self._files.values()} | {mark.path for mark in cotangents[-1:]}
        remove_files(mark.path for mark in marks if mark.kind != "final" and mark.path not in used)

    def note(self, index: int, tree: Any, kind: str) -> None:
        """Have something else written than a state; a cotangent that still waits to be written gives way to the next.

        Parameters
        ----------
        index : int
            As in `Mark`.
        tree : pytree
            Copied.
        kind : str
            ``"cotangent"`` or ``"final"``.
        """
        last = self._cotangent
        if kind == "cotangent" and last is not None:
            if self._writing and self._writing[-1] is last:
                self._remove(last)
            else:
                self._superseded.append(last.path)
        file = self._write(index, copy_state(tree), kind)
        if kind == "cotangent":
            self._cotangent = file

    def add_row(self, name: str, index: int, leaves: list[Any]) -> None:
        """Append a row to a log; it is there whenever a later file is.

        Parameters
        ----------
        name : str
            Of the log: ``"check"``, ``"first"`` or ``"reverse"``.
        index : int
            Of the step.
        leaves : list
            Copied.
        """
        self._opened().log(name).append(index, leaves)

    def rows(self, name: str) -> dict[int, list[Any]]:
        """Rows of a log that was found: those before the first that cannot be read back, which is cut off with all behind it.

        Parameters
        ----------
        name : str
            Of the log.

        Returns
        -------
        dict
            Leaves by index.
        """
        return Log.read(self.log_path(name), self._opened().label(f"{name}.rows"))

    def log_path(self, name: str) -> Path:
        """The file of a log."""
        return self.path / f"{name}.rows"

    def remove_log(self, name: str) -> None:
        """Remove a log that was found."""
        remove_files([self.log_path(name)])

    def read(self, mark: Mark) -> list[Any]:
        """Leaves of a file that was found.

        Parameters
        ----------
        mark : Mark

        Returns
        -------
        list

        Raises
        ------
        DamagedState
            If it cannot be read back.
        """
        return read_leaves(mark.path, mark.index, self._opened().label(mark.path.name))

    def discard(self, marks: Iterable[Mark]) -> None:
        """Remove files that were found."""
        remove_files(mark.path for mark in marks)

    def is_of_this_run(self, mark: Mark) -> bool:
        """Return whether the header of a file that was found says so."""
        return read_label(mark.path) == self._opened().label(mark.path.name)

    def held(self, index: int) -> Any:
        """A saved state that is not loaded for the schedule: neither counted nor copied, and not to be written into."""
        return self._get(index, "read").read()

    def finish(self) -> None:
        """Remove all files: the sweep is done. See `Session.finish`."""
        if self._folder is not None:
            self._opened().finished = True
        self.clear()

    def clear(self) -> None:
        """Wait for what is being written, and leave the folder; see `Session.clear`."""
        super().clear()
        self._superseded, self._cotangent, self._structure = [], None, None

    def _file(self, index: int, kind: str, leaves: list[Any], structure: optree.PyTreeSpec) -> "_KeptFile":
        if kind == "state":
            self._structure = self._structure or structure
            if structure != self._structure:
                raise TypeError(
                    f"Disk: state {index} has the structure {structure}, an earlier one {self._structure}; with resume=True all "
                    "states must have the same. Use Disk(path) without it; or, if the structures differ by a Dual, because a "
                    "derivative (as of hvp) enters through a parameter, put that parameter into the state"
                )
        folder = self._opened()
        for log in folder.logs.values():
            log.flush()
        file = _KeptFile(index, folder.path / f"{self.point:015d}-{index:012d}.{kind}", leaves, structure)
        file.folder, file.superseded, self._superseded = folder, self._superseded, []
        return file

    def _adopted(self, index: int, path: Path, structure: optree.PyTreeSpec, size: int) -> "_KeptFile":
        file = _KeptFile(index, path, [], structure)
        file.leaves, file.nbytes, file.folder = None, size, self._opened()
        return file

    def _remove(self, file: File) -> None:
        """Remove a file once the next one is on the disk, or see to it that it is not written.

        A file behind which another one waits is written: what a process finds by the later one counts on it.
        """
        assert isinstance(file, _KeptFile)
        if self._writing and self._writing[-1] is file and file.written.cancel():
            self._writing.pop()
            self._superseded += file.superseded
        else:
            self._superseded.append(file.path)

    def _make_folder(self) -> KeptFolder:
        return KeptFolder(self.path, self._shared)

    def _opened(self) -> KeptFolder:
        self._here()
        folder = self._open()
        assert isinstance(folder, KeptFolder)
        return folder

    def _here(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError(
                f"Disk: with resume=True the sweep belongs to process {self._process}, of which this one is a fork; go on with it there, "
                "or use Disk(path) without resume"
            )


class _KeptFile(File):
    """A file that is on the disk itself once it is written, and then takes the place of others."""

    folder: KeptFolder
    superseded: list[Path]
    written: Job

    def write(self) -> None:
        if self.folder.error is not None:
            raise self.folder.error
        assert self.leaves is not None
        try:
            for log in tuple(self.folder.logs.values()):
                log.sync()
            write_leaves(self.path, self.index, self.leaves, sync=True, label=self.folder.label(self.path.name))
        except BaseException as error:
            self.folder.error = error
            raise
        self.leaves = None
        remove_files(path for path in self.superseded if path != self.path)

    def read(self) -> Any:
        leaves = self.leaves
        if leaves is None:
            leaves = read_leaves(self.path, self.index, self.folder.label(self.path.name))
        return optree.tree_unflatten(self.structure, leaves)
