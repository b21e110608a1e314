"""The saved states of one sweep in files that outlive the process, so that another process can go on from them.

The files are the journal. Every action of the schedule has a number, its point, and a file bears in its name the point at which
it was written: the state that a Save named, the cotangent after a Reverse, x_N and x_{N-1} between the two sweeps. One thread
writes them in this order, each whole and onto the disk itself, and removes what is no longer needed only after the next one. So
whenever the process ends, the file of the highest point says how far it came, and all that was saved at that point is there.

What a step leaves behind besides its state is a row, one a step, in a log for each of the two sweeps. Rows are handed to the system
before the next file is given to the thread, which has them on the disk itself before it writes that file.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import optree

from .background import DiskSession, File, Folder
from .files import NAMESPACE, read_leaves, sync_folder, write_leaves
from .log import Log
from .states import copy_state, nbytes
from .storage import DamagedState

__all__ = ["KeptSession", "Mark"]

MANIFEST, LOCK, ROWS = "manifest.json", "lock", "*.rows"
NAME = re.compile(r"([0-9]{15})-([0-9]{12})\.(state|cotangent|final)")


class Mark(NamedTuple):
    """A file that was found.

    Attributes
    ----------
    point : int
        Number of the action after which it was written.
    index : int
        Of the state; of the step reversed, for a cotangent; N, for x_N.
    kind : str
        ``"state"``, ``"cotangent"`` or ``"final"``.
    path : Path
    """

    point: int
    index: int
    kind: str
    path: Path


class KeptSession(DiskSession):
    """The states of one sweep in files that outlive the process; see `Session` for the methods and counts.

    `clear` leaves the files for another process; `finish` removes them.

    Parameters
    ----------
    path : Path
        The folder of the files.
    queue : int
        Most states waiting to be written.

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

    def __init__(self, path: Path, queue: int) -> None:
        super().__init__(path, queue)
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
        ValueError
            If it was another call, naming what differs.
        BlockingIOError
            If a sweep is at work in this folder.
        """
        folder = self._open().path
        _remove(folder.glob("*.tmp"))
        manifest = folder / MANIFEST
        marks = sorted(_marks(folder))
        if manifest.exists():
            _same(folder, _read_manifest(manifest), dict(call))
        else:
            _remove([*(mark.path for mark in marks), *folder.glob(ROWS)])
            marks = []
            temporary = manifest.with_suffix(".tmp")
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
                json.dump(dict(call), opened, indent=1)
                opened.flush()
                os.fsync(opened.fileno())
            os.replace(temporary, manifest)
            sync_folder(folder)
        self.point = 0
        return marks

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
            path = paths.get(index, self._open().path / f"{0:015d}-{index:012d}.state")
            self._files[index] = self._adopted(index, path, structure, nbytes(leaves))
            self._bytes += self._files[index].nbytes
        self.peak_states, self.peak_bytes = max(self.peak_states, len(self._files)), max(self.peak_bytes, self._bytes)
        cotangents = [mark for mark in marks if mark.kind == "cotangent"]
        if cotangents:
            self._cotangent = self._adopted(cotangents[-1].index, cotangents[-1].path, structure, 0)
        used = {file.path for file in self._files.values()} | {mark.path for mark in cotangents[-1:]}
        _remove(mark.path for mark in marks if mark.kind != "final" and mark.path not in used)

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

    def add_row(self, sweep: str, index: int, leaves: list[Any]) -> None:
        """Append a row to a log; it is there whenever a later file is.

        Parameters
        ----------
        sweep : str
            Names the log.
        index : int
            Of the step.
        leaves : list
            Copied.
        """
        folder = self._open()
        assert isinstance(folder, _KeptFolder)
        if sweep not in folder.logs:
            folder.logs[sweep] = Log(folder.path / ROWS.replace("*", sweep))
        folder.logs[sweep].append(index, leaves)

    def rows(self, sweep: str, indices: range) -> dict[int, list[Any]]:
        """Rows of a log that was found.

        Parameters
        ----------
        sweep : str
            Names the log.
        indices : range
            Which have to be there; if none, the log is removed.

        Returns
        -------
        dict
            Leaves by index.

        Raises
        ------
        DamagedState
            If one is not there.
        """
        path = self._open().path / ROWS.replace("*", sweep)
        if not indices:
            _remove([path])
            return {}
        rows = Log.read(path)
        lost = next((index for index in indices if index not in rows), None)
        if lost is not None:
            raise DamagedState(
                f"Disk: row {lost} cannot be read back from {path}; without it the sweep cannot go on: remove the folder to begin again"
            )
        return {index: rows[index] for index in indices}

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
        try:
            return read_leaves(mark.path, mark.index)
        except DamagedState as error:
            raise DamagedState(f"{error}; without it the sweep cannot go on: remove the folder to begin again") from error

    def finish(self) -> None:
        """Remove all files: the sweep is done. See `Session.finish`."""
        if self._folder is not None:
            self._folder.finished = True
        self.clear()

    def clear(self) -> None:
        """Wait for what is being written, and leave the folder; see `Session.clear`."""
        self._superseded, self._cotangent, self._structure = [], None, None
        super().clear()

    def _file(self, index: int, kind: str, leaves: list[Any], structure: optree.PyTreeSpec) -> "_KeptFile":
        if kind == "state":
            self._structure = self._structure or structure
            if structure != self._structure:
                raise TypeError(
                    f"Disk: state {index} has the structure {structure}, an earlier one {self._structure}; with resume=True all "
                    "states must have the same. Use Disk(path) without it; or, if the structures differ by a Dual, because a "
                    "derivative (as of hvp) enters through a parameter, put that parameter into the state"
                )
        folder = self._open()
        assert isinstance(folder, _KeptFolder)
        for log in folder.logs.values():
            log.flush()
        file = _KeptFile(index, folder.path / f"{self.point:015d}-{index:012d}.{kind}", leaves, structure)
        file.folder, file.superseded, self._superseded = folder, self._superseded, []
        return file

    def _adopted(self, index: int, path: Path, structure: optree.PyTreeSpec, size: int) -> "_KeptFile":
        file = _KeptFile(index, path, [], structure)
        file.leaves, file.nbytes = None, size
        file.written.set_result(None)
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

    def _make_folder(self) -> "_KeptFolder":
        assert self._path is not None
        return _KeptFolder(self._path)


class _KeptFolder(Folder):
    """A folder that one sweep at a time has, under its lock."""

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path, self.finished, self.logs = path, False, dict[str, Log]()
        self.error: BaseException | None = None  # of the writer: after it, nothing more is written
        self.lock = _locked(path / LOCK)
        self.start()

    def remove(self) -> None:
        """Let both threads end their work, remove the files if the sweep is finished, and give the folder free."""
        if os.getpid() != self.process:  # a fork of the process that owns it
            return
        try:
            for pool in (self.writer, self.reader):
                with suppress(RuntimeError):  # called by the garbage collector in one of the threads
                    pool.shutdown()
            for log in self.logs.values():
                log.close()
            if self.finished:
                _remove([self.path / MANIFEST])  # first: what is left without it counts for nothing
                _remove(mark.path for mark in _marks(self.path))
                _remove([*self.path.glob(ROWS), *self.path.glob("*.tmp"), self.path / LOCK])
                with suppress(OSError):  # other files are in it
                    self.path.rmdir()
        finally:
            os.close(self.lock)


class _KeptFile(File):
    """A file that is on the disk itself once it is written, and then takes the place of others."""

    folder: _KeptFolder
    superseded: list[Path]
    written: Future[None]

    def write(self) -> None:
        if self.folder.error is not None:
            raise self.folder.error
        assert self.leaves is not None
        try:
            for log in tuple(self.folder.logs.values()):
                log.sync()
            write_leaves(self.path, self.index, self.leaves, sync=True)
        except BaseException as error:
            self.folder.error = error
            raise
        self.leaves = None
        _remove(path for path in self.superseded if path != self.path)


def _marks(folder: Path) -> list[Mark]:
    found = ((NAME.fullmatch(file.name), file) for file in folder.iterdir())
    return [Mark(int(match[1]), int(match[2]), match[3], file) for match, file in found if match]


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
        if type(content) is dict:
            return content
    except (OSError, ValueError):
        pass
    raise DamagedState(f"Disk: {path} cannot be read back; remove the folder to begin again")


def _same(folder: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    differing = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if differing:
        names = ", ".join(f"{name} ({_short(there.get(name))} there, {_short(here.get(name))} here)" for name in differing)
        raise ValueError(
            f"Disk: {folder} holds another call than this one; it differs in: {names}. "
            "Make the same call again, or remove the folder to begin a new one"
        )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _locked(path: Path) -> int:
    """Open a file that no other process, and no other sweep of this one, has locked; the system unlocks it at the end."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor)
        if not path.exists() or os.stat(path).st_ino != os.fstat(descriptor).st_ino:  # finished and removed meanwhile
            raise BlockingIOError
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return descriptor
    except OSError as error:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace")
        os.close(descriptor)
        raise BlockingIOError(
            error.errno,
            f"Disk: another sweep is at work in this folder, in process {owner}; one folder is for one sweep",
            str(path.parent),
        ) from None


if os.name == "posix":
    from fcntl import LOCK_EX, LOCK_NB, flock

    def _lock(descriptor: int) -> None:
        flock(descriptor, LOCK_EX | LOCK_NB)

else:
    from msvcrt import LK_NBLCK, locking

    def _lock(descriptor: int) -> None:
        locking(descriptor, LK_NBLCK, 1)
