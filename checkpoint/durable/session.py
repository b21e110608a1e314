"""The saved states of one sweep in files that outlive the process, so that another process can go on from them.

From time to time there is a durable point: one file, ``*.point``, which says how far the sweep has come and holds its working state and
its cotangent. The thread that writes forces everything onto the disk that the point counts on, the saved states above all, and writes
the point's file last. What was dropped meanwhile is removed when there are two newer points: so there is always one to fall back to.

Large states are written when there is no more room for them in main memory, and by the next point if they are still saved then. Small
ones stay there until the next point, which has those that are still saved written in one file, ``*.batch``. What a step leaves behind
besides its state is a row, one a step, in a log for each of the two sweeps.
"""

import os
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import optree

from ..storage.background import Batch, DiskSession, File, batch_of
from ..storage.files import NAMESPACE, check_leaves, read_label, read_leaves, sync_file, write_leaves
from ..storage.states import nbytes
from ..storage.storage import DamagedState
from ..storage.worker import Job
from ..support.costs import DISK_RATE, POINT_REST, WRITE_QUEUE, WRITE_QUEUE_BYTES
from .folder import DurableFolder, Mark, remove_files
from .log import Log

__all__ = ["DurableStates"]

WHAT = {"point": "a durable point", "final": "the end of the first sweep"}


class DurableStates(DiskSession):
    """The states of one sweep in files that outlive the process: `clear` leaves them, `finish` removes them; see `Session`.

    `every`: seconds between durable points (0: all, synchronously). The caller sets `point`, the number of the action under way."""

    def __init__(self, path: Path, queue: int | None, shared: bool = False, every: float = 0.0) -> None:
        super().__init__(path, queue or WRITE_QUEUE)
        self._unsaid = queue is None
        self.path, self._shared, self.every = path, shared, every
        self._restart()

    def _restart(self) -> None:
        self.point, self.due = 0, inf
        self._number = 0  # of the newest file
        self._committed: Job | None = None
        self._newest: Path | None = None  # of the points
        self._unsynced: list[_DurableFile | _DurableBatch] = []
        self._saved: list[int] = []  # since the last point
        self._superseded: list[Path] = []  # since the last point
        self._older: list[Path] = []  # before that
        self._structure: optree.PyTreeSpec | None = None  # of all states

    def begin(self, call: Mapping[str, Any]) -> list[Mark]:
        """Lock the folder and return the files of an earlier process, in the order of writing; errors as `DurableFolder.begin`.

        BlockingIOError if another sweep works in this folder."""
        marks = self._opened().begin(call)
        self._began = monotonic()
        self.point, self.due = 0, self._began + self.every
        self._number = max((mark.number for mark in marks), default=0)
        return marks

    def adopt(self, indices: Iterable[int], like: Any, marks: list[Mark]) -> list[DamagedState]:
        """Take over the saved states `indices`, of the structure of `like`, from an earlier process's files; return the damaged batches.

        A state that no file has counts as damaged when it is loaded."""
        leaves, structure = optree.tree_flatten(like, none_is_leaf=True, namespace=NAMESPACE)
        self._structure = structure
        wanted, damaged, batches = set(indices), [], []
        for mark in marks:
            if mark.kind == "batch":
                batch = self._new_batch(mark.index, mark.path)
                try:
                    groups = batch_of(batch.read_leaves())
                except DamagedState as error:
                    damaged.append(error)
                    continue
                batch.structures = [structure] * len(groups)
                batch.sizes = {index: pattern.nbytes for pattern, indices, _ in groups for index in indices}
                self._batches.update(dict.fromkeys(wanted & batch.sizes.keys(), batch))
                batches.append(batch)
        for index, known in self._batches.items():
            known.left += 1
            self._bytes += known.sizes[index]
        self._evicted.update(self._batches)
        paths = {mark.index: mark.path for mark in marks if mark.kind == "state"}
        for index in wanted - self._evicted:
            self._files[index] = self._adopted(index, paths.get(index), structure, nbytes(leaves), bool(damaged))
            self._bytes += self._files[index].nbytes
        self.peak_states, self.peak_bytes = max(self.peak_states, len(self)), max(self.peak_bytes, self._bytes)
        used = {file.path for file in self._files.values()} | {batch.path for batch in batches if batch.left}
        self._superseded = [mark.path for mark in marks if mark.kind != "final" and mark.path not in used]
        return damaged

    def save(self, index: int, state: Any) -> None:
        """Save a copy of a state; see `Session.save`."""
        super().save(index, state)
        self._saved.append(index)
        if self._unsaid and index in self._files:
            self._queue, self._unsaid = max(WRITE_QUEUE, WRITE_QUEUE_BYTES // self._files[index].nbytes), False

    def note(self, index: int, leaves: list[Any]) -> None:
        """Have the state written from which the last step of the first sweep gives x_index; takes ownership of the leaves."""
        check_leaves(leaves)
        file = self._file(index, "final", leaves, optree.tree_structure(leaves, none_is_leaf=True))  # type: ignore[arg-type]
        self._submit(file, file.move)

    def ready(self) -> bool:
        """Return whether there can be a durable point now; what the writing thread raised is raised."""
        if self._committed is not None:
            if self.every and not self._committed.done():
                self.due = monotonic() + self.every / 8
                return False
            self._committed.result()
        elif self.every and monotonic() < (due := self._began + POINT_REST * self._bytes / DISK_RATE):
            self.due = due
            return False
        return True

    @property
    def answers(self) -> bool:
        """Whether there is to be a last point, with the result."""
        return False

    def wait_for_point(self) -> None:
        """Wait until the last point is written."""
        if self._committed is not None:
            self._committed.result()

    def commit(self, position: int, leaves: list[Any]) -> None:
        """Make a durable point in the background: with these leaves, which it then owns, all states saved now can be found again."""
        self._here()
        started = monotonic()
        check_leaves(leaves)
        folder = self._opened()
        saved = [index for index in dict.fromkeys(self._saved) if index in self._pool and index not in self._batches]
        if saved:
            self._batch(saved)
        parts = [part for part in self._unsynced if part.is_needed(self._files)]
        for file in self._resident:
            self._start(file)
        self._unsynced, self._saved = [], []
        for log in folder.logs.values():
            log.flush()
        if self._newest is not None:
            self._superseded.append(self._newest)
        doomed, self._older, self._superseded = self._older, self._superseded, []
        self._newest = path = self._path_of(position, "point")

        def put() -> None:
            with folder.writing():
                for part in parts:
                    part.sync()
                for log in tuple(folder.logs.values()):
                    log.sync()
                folder.sync()
                write_leaves(path, position, leaves, sync=True, label=folder.label(path.name))
            remove_files(doomed)
            if self.every:
                ended = monotonic()
                self.due = max(self.due, ended + POINT_REST * (ended - started))  # with the states that were written for it before

        self.due = started + self.every
        self._committed = folder.writer.submit(put)

    def add_row(self, name: str, index: int, leaves: list[Any]) -> None:
        """Append a copied row to the log ``"first"`` or ``"reverse"``; it is there whenever a later point is."""
        self._opened().log(name).append(index, leaves)

    def rows(self, name: str) -> dict[int, list[Any]]:
        """Return the leaves by index in a log, up to the first row that is damaged; it and what follows are cut off."""
        return Log.read(self.log_path(name), self._opened().label(f"{name}.rows"))

    def log_path(self, name: str) -> Path:
        """The file of a log."""
        return self.path / f"{name}.rows"

    def remove_log(self, name: str) -> None:
        """Remove a log that was found."""
        remove_files([self.log_path(name)])

    def read(self, mark: Mark) -> list[Any]:
        """Return the leaves of a file that was found, or raise DamagedState."""
        return read_leaves(mark.path, mark.index, self._opened().label(mark.path.name), WHAT.get(mark.kind, ""))

    def discard(self, marks: Iterable[Mark]) -> None:
        """Remove files that were found."""
        remove_files(mark.path for mark in marks)

    def is_of_this_run(self, mark: Mark) -> bool:
        """Return whether the header of a file that was found says so."""
        return read_label(mark.path) == self._opened().label(mark.path.name)

    def peek(self, index: int) -> Any:
        """A saved state that is not loaded for the schedule: neither counted nor copied, and not to be written into."""
        if index in self._evicted:
            self._fetch(index)
        if (packed := self._pool.get(index)) is not None:
            return packed[0].unflatten(packed[1])
        return self._get(index, "read").read()

    def forget(self, indices: list[int]) -> None:
        """Count these states as saved, and no others: those of the end of the first sweep, some of which are gone by now."""
        for index in set(self.indices()) - set(indices):
            self.drop(index)
        for index in set(indices) - set(self.indices()):
            self._files[index] = self._adopted(index, None, self._structure, 0, True)  # type: ignore[arg-type]

    def finish(self) -> None:
        """Remove all files: the sweep is done. See `Session.finish`."""
        if self._folder is not None:
            self._opened().finished = True
        self.clear()

    def clear(self) -> None:
        """Wait for what is being written, and leave the folder; see `Session.clear`."""
        super().clear()
        self._restart()

    def _keeps(self, structure: optree.PyTreeSpec, index: int) -> bool:
        if structure is not self._structure:
            self._structure = self._structure or structure
            if structure != self._structure:
                self.refuse(index, structure, self._structure)
        return True

    @staticmethod
    def refuse(index: int, structure: optree.PyTreeSpec, earlier: optree.PyTreeSpec) -> None:
        """Raise for a state of another structure."""
        raise TypeError(
            f"Disk: state {index} has structure {structure}, an earlier one {earlier}; resume=True needs one structure. Drop resume=True, "
            "or, if a Dual enters through a parameter (as in hvp), put that parameter into the state"
        )

    def _path_of(self, index: int, kind: str) -> Path:
        self._number += 1
        return self._opened().path / f"{self._number:015d}-{index:012d}.{kind}"

    def _file(self, index: int, kind: str, leaves: list[Any], structure: optree.PyTreeSpec) -> "_DurableFile":
        file = _DurableFile(index, self._path_of(index, kind), leaves, structure)
        file.folder = self._opened()
        self._unsynced.append(file)
        return file

    def _adopted(self, index: int, path: Path | None, structure: optree.PyTreeSpec, size: int, told: bool) -> "_DurableFile":
        """What an earlier process has saved; without a path, in a file that is not there, or, if that was told, in a damaged one."""
        file = _DurableFile(index, path, [], structure) if path is not None else _LostFile(index, self.path, told, structure)
        file.leaves, file.nbytes, file.written, file.folder, file.committed = None, size, Job(), self._opened(), True
        return file

    def _new_batch(self, number: int, path: Path | None = None) -> "_DurableBatch":
        batch = _DurableBatch(path or self._path_of(number, "batch"), number)
        batch.folder = self._opened()
        return batch

    def _batch(self, indices: list[int]) -> "_DurableBatch":
        batch = super()._batch(indices)
        assert isinstance(batch, _DurableBatch)
        self._unsynced.append(batch)
        return batch

    def _remove_batch(self, batch: Batch) -> None:
        self._superseded.append(batch.path)

    def _remove(self, file: File) -> None:
        """Remove a file once there are two points without it, or at once if there was none with it."""
        assert isinstance(file, _DurableFile)
        if file.committed:
            self._superseded.append(file.path)
            return
        self._unsynced.remove(file)
        if file.written is not None and not file.written.cancel():
            self._opened().writer.submit(lambda: remove_files([file.path]))

    def _make_folder(self) -> DurableFolder:
        return DurableFolder(self.path, self._shared)

    def _opened(self) -> DurableFolder:
        self._here()
        folder = self._open()
        assert isinstance(folder, DurableFolder)
        return folder

    def _here(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError(
                f"Disk: this is a fork of process {self._process}, which owns the sweep; continue it there, or drop resume=True"
            )


class _DurableFile(File):
    """The file of a state, or of the ends of the first sweep, which the next point forces onto the disk itself."""

    folder: DurableFolder
    committed = False  # whether there is a point that counts on it

    def is_needed(self, files: dict[int, File]) -> bool:
        self.committed = self.path.suffix == ".final" or files.get(self.index) is self
        return self.committed

    def write(self) -> None:
        assert self.leaves is not None
        with self.folder.writing():
            write_leaves(self.path, self.index, self.leaves, label=self.folder.label(self.path.name))

    def move(self) -> None:
        """Write it, and free its memory."""
        self.write()
        self.leaves = None

    def sync(self) -> None:
        sync_file(self.path)

    def read(self) -> Any:
        leaves = self.leaves
        if leaves is None:
            leaves = read_leaves(self.path, self.index, self.folder.label(self.path.name))
        return optree.tree_unflatten(self.structure, leaves)


class _LostFile(_DurableFile):
    """In place of the file of a state that was saved, and is in none of those that were found."""

    def __init__(self, index: int, folder: Path, told: bool, structure: optree.PyTreeSpec) -> None:
        super().__init__(index, folder / f"{index}.lost", [], structure)
        self._folder, self._told = folder, told

    def read(self) -> Any:
        error = DamagedState(f"Disk: state {self.index} is in no file of {self._folder} that can be read back")
        error.told = self._told
        raise error


class _DurableBatch(Batch):
    """A batch that the next point forces onto the disk itself."""

    folder: DurableFolder

    def is_needed(self, files: dict[int, File]) -> bool:
        return self.left > 0

    def write(self) -> None:
        if self.groups is not None:
            with self.folder.writing():
                write_leaves(self.path, self.number, self.leaves(), label=self.folder.label(self.path.name))
            self.groups = None

    def sync(self) -> None:
        self.write()
        sync_file(self.path)

    def read_leaves(self) -> list[Any]:
        return read_leaves(self.path, self.number, self.folder.label(self.path.name), self.what)
