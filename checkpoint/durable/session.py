"""The saved states of one sweep in a folder that outlives the process, so that another process can go on from them.

A folder belongs to the sweep whose manifest is in it. Only files with names that are given here are ever touched, no link is followed,
and nothing is removed before the manifest has been read. Every file carries the number of the run in the manifest.

From time to time there is a durable point: one file, ``*.point``, which records the progress of the sweep, its working state and
its cotangent. The writing thread syncs everything to disk that the point depends on, the saved states above all, and writes
the point's file last. States dropped meanwhile are removed when there are two newer points, so there is always one to fall back to.

Large states are written when main memory has no more room for them, and by the next point if they are still saved then. Small
ones stay there until the next point, which writes those that are still saved into one file, ``*.batch``. Other results of a step
are a row for each step, in a log for each of the two sweeps.
"""

import json
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, NamedTuple
from zlib import crc32

import optree

from ..storage.background import LOCK, DiskSession, File, Folder
from ..storage.codec import NAMESPACE, check_leaves, read_leaves, read_records, write_leaves
from ..storage.files import Lock, make_folder, not_made_here, open_file, sync_file, write_file
from ..storage.memory import NUMBER, Record
from ..storage.states import nbytes
from ..storage.storage import DamagedState
from ..storage.worker import Job
from ..support.costs import DISK_RATE, POINT_SHARE, WRITE_QUEUE, WRITE_QUEUE_BYTES
from .log import RowLog

MANIFEST, DONE, TEMPORARY = "manifest.json", "finished.json", "manifest.json.tmp"
LOGS = ("first", "reverse")
MARK = re.compile(r"([0-9]{15})-([0-9]{12})\.(state|batch|final|point)")
ROWS = re.compile(rf"({'|'.join(LOGS)})\.rows")
OURS = re.compile(rf"{MARK.pattern}(\.tmp)?|{ROWS.pattern}|{MANIFEST}|{DONE}|{LOCK}|{TEMPORARY}".replace(".json", r"\.json"))
FORMAT = "sweep of checkpoint, 6"
SIGNATURE = json.dumps({"format": FORMAT})[:-1].encode()  # the beginning of a manifest
ANEW = "remove the folder to begin anew"
REST = 1 / POINT_SHARE - 1  # a point is made no earlier than after so many times the time that the last one took
WHAT = {"point": "a durable point", "final": "the end of the first sweep", "batch": "a batch of small states"}


class AnotherCall(ValueError):
    """A folder belongs to another call, as its manifest says, or results that are compared."""


class Mark(NamedTuple):
    """A file that was found; `kind` is ``"state"``, ``"batch"`` (of small states), ``"final"`` or ``"point"``."""

    number: int  # ascending in the order of writing
    index: int  # type: ignore[assignment]  # of the state (N: x_N), else the number in the file's name; hides tuple.index
    kind: str
    path: Path


class DurableFolder(Folder):
    """A folder that one sweep at a time has, under its lock; a `shared` one may hold other files too.
    `run`: id of the run, after `begin`; `finished`: the files may be removed."""

    def __init__(self, path: Path, shared: bool) -> None:
        super().__init__(path)
        self.path, self.shared = path, shared
        self.run, self.finished = "", False
        self.logs: dict[str, RowLog] = {}
        self.lock = Lock(path / LOCK)

    def open(self) -> None:
        make_folder(self.path, "Disk")
        self.survey()
        self.lock.acquire()

    def begin(self, call: Mapping[str, Any]) -> list[Mark]:
        """Return the files that an earlier process left of the same call (a JSON mapping), in the order of writing.
        ValueError if the call differs, naming the parts; FileExistsError for foreign files; DamagedState for a damaged manifest."""
        names = self.survey()
        if MANIFEST in names:
            there = read_manifest(self.path / MANIFEST)
            self.run = there["run"]
            noted = there["call"]
            if differing := [name for name in {**noted, **call} if noted.get(name) != call.get(name)]:
                parts = ", ".join(f"{name} ({shortened(noted.get(name))} there, {shortened(call.get(name))} here)" for name in differing)
                raise AnotherCall(f"Disk: {self.path} belongs to another call; it differs in: {parts}. Repeat the same call, or {ANEW}")
            remove_files(self.path / name for name in names if name.endswith(".tmp"))
            return self.marks()
        if DONE in names:  # its sweep was ended while it removed its files
            read_manifest(self.path / DONE)
            self.remove_all()
        elif TEMPORARY in names:
            with open_file(self.path / TEMPORARY) as file:
                found = file.read(len(SIGNATURE))
            if not SIGNATURE.startswith(found):  # it is the beginning of something else
                raise not_made_here("Disk: this file was not made here; give another folder, or move it", self.path / TEMPORARY)
            remove_files([self.path / TEMPORARY])
        elif left := sorted(names - {LOCK}):
            anybodys = f"Disk: there is {listing(left)}, but no {MANIFEST}, so that they may be anybody's; give another folder, or {ANEW}"
            raise not_made_here(anybodys, self.path)
        self.run = token_hex(8)
        write_manifest(self.path / MANIFEST, {"format": FORMAT, "run": self.run, "call": dict(call)})
        return []

    def survey(self) -> set[str]:
        """Return the names in the folder that are a sweep's; FileExistsError if there are others and the folder is not shared."""
        ours, others = survey(self.path, OURS, None, "Disk", "a sweep")
        if others and not self.shared:
            raise not_made_here(
                f"Disk: the folder has other files ({listing(others)}); with resume=True use a folder of its own, or shared=True, "
                "which leaves them alone",
                self.path,
            )
        return ours

    def marks(self) -> list[Mark]:
        """Return the files of states, points and x_{N-1} in the folder, in the order of writing."""
        found = ((MARK.fullmatch(file.name), file) for file in self.path.iterdir())
        return sorted(Mark(int(match[1]), int(match[2]), match[3], file) for match, file in found if match)

    def label(self, name: str) -> str:
        """Return the label of the records in a file of this run."""
        return f"{self.run}/{name}"

    def log(self, name: str) -> RowLog:
        if name not in self.logs:
            self.logs[name] = RowLog(self.path / f"{name}.rows", self.label(f"{name}.rows"))
        return self.logs[name]

    def stop(self) -> None:
        """Wait for both threads, remove the files if the sweep is finished, and unlock the folder; may be called again."""
        if not self.lock.held():
            return
        self.writer.stop()
        self.reader.stop()
        for log in self.logs.values():
            log.close()
        try:
            if self.finished:
                if (self.path / MANIFEST).exists():
                    os.replace(self.path / MANIFEST, self.path / DONE)  # at once: what is left from here on is of no use
                self.remove_all()
                self.lock.remove()
                with suppress(OSError):  # there are other files
                    self.path.rmdir()
        finally:
            self.lock.release()

    def remove_all(self) -> None:
        """Remove all files of the sweep, except the lock."""
        remove_files([file for file in self.path.iterdir() if OURS.fullmatch(file.name) and file.name not in (LOCK, DONE)])
        remove_files([self.path / DONE])


def write_manifest(path: Path, content: Mapping[str, Any], sync: bool = False) -> None:
    """Write what says whose a folder is: a JSON mapping, whose first entry is ``"format"``, with its checksum."""
    write_file(path, [json.dumps({**content, "crc32": manifest_checksum(content)}).encode()], "the manifest", sync)


def parse_manifest(data: bytes, form: str) -> dict[str, Any] | None:
    """Return the content of a manifest; None if it has been altered, is of another format, or was not made here."""
    try:
        content = json.loads(data)
        if content.pop("crc32") == manifest_checksum(content) and content["format"] == form:
            return dict(content)
    except Exception:  # whatever altered bytes lead to
        pass
    return None


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the content of the manifest of a sweep, with ``"run"`` and ``"call"``; DamagedState if it cannot be read."""
    reason = "it has been altered, is of another version of this package, or was not made here"
    try:
        with open_file(path) as file:
            content = parse_manifest(file.read() or b"", FORMAT)
    except OSError as error:
        content, reason = None, error.strerror or str(error)
    if content is None:
        raise DamagedState(f"Disk: {path} cannot be read back: {reason}; {ANEW}")
    return content


def survey(path: Path, files: re.Pattern[str], folders: re.Pattern[str] | None, where: str, owner: str) -> tuple[set[str], list[str]]:
    """Return the names in a folder that are its owner's, and the others, sorted.
    FileExistsError for something that has the name of a regular file, or folder, of the owner's, and is none."""
    ours, others = set(), []
    with os.scandir(path) as entries:
        for entry in entries:
            is_folder = folders is not None and folders.fullmatch(entry.name) is not None
            if not is_folder and not files.fullmatch(entry.name):
                others.append(entry.name)
            elif (entry.is_dir if is_folder else entry.is_file)(follow_symlinks=False):
                ours.add(entry.name)
            else:
                kind = "folder" if is_folder else "regular file"
                raise not_made_here(f"{where}: not a {kind}, where {owner} has one; give another folder, or move it", entry.path)
    return ours, sorted(others)


def remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def warn(message: str) -> None:
    """Warn of something that is lost and computed again."""
    warnings.warn(message, RuntimeWarning, stacklevel=5)


def listing(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def manifest_checksum(content: Mapping[str, Any]) -> int:
    return crc32(json.dumps(content, sort_keys=True).encode())


def shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


class DurableStates(DiskSession):
    """The states of one sweep in files that outlive the process: `clear` leaves them, `finish` removes them; see `Session`.
    `every`: seconds between durable points (0: all, synchronously). The caller sets `point`, the number of the action under way."""

    def __init__(self, path: Path, queue: int | None, shared: bool = False, every: float = 0.0) -> None:
        super().__init__(path, queue or WRITE_QUEUE)
        self._adapts_queue = queue is None
        self.path, self._shared, self.every = path, shared, every

    def _forget(self) -> None:
        super()._forget()
        self.point, self.due = 0, inf
        self._number = 0  # of the newest file
        self._committed: Job | None = None
        self._newest: Path | None = None  # of the points
        self._unsynced: list[File] = []  # that no point has counted on
        self._saved: list[int] = []  # since the last point
        self._superseded: list[Path] = []  # since the last point
        self._older: list[Path] = []  # before that
        self._structure: optree.PyTreeSpec | None = None  # of all states

    def begin(self, call: Mapping[str, Any]) -> list[Mark]:
        """Lock the folder and return the files of an earlier process, in the order of writing; errors as `DurableFolder.begin`.
        BlockingIOError if another sweep works in this folder."""
        marks = self._open().begin(call)
        self._began = monotonic()
        self.point, self.due = 0, self._began + self.every
        self._number = max((mark.number for mark in marks), default=0)
        return marks

    def adopt(self, indices: Iterable[int], like: Any, marks: list[Mark]) -> list[DamagedState]:
        """Take over the saved states `indices`, of the structure of `like`, from an earlier process's files; return the damaged batches.
        A state that no file has counts as damaged when it is loaded."""
        leaves, structure = optree.tree_flatten(like, none_is_leaf=True, namespace=NAMESPACE)
        self._structure = structure
        folder, missing, damaged = self._open(), set(indices), []
        for mark in marks:
            if mark.kind == "batch":
                try:
                    records = read_records(mark.path, folder.label(mark.path.name), WHAT["batch"])
                except DamagedState as error:
                    damaged.append(error)
                    continue
                states = {index: part for rows in records for index, part in rows.items()}
                file = File(mark.path, folder, None, {index: nbytes(part) for index, part in states.items()})
                file.structures, file.left = [structure] * len(records), 0
                for index in sorted(missing & states.keys()):
                    size = self._pool.add(index, structure, states[index])
                    if size is not None:
                        self._bytes += size
                        self._files[index] = file
                        file.left += 1
                        missing.remove(index)
                        self._evict()
        paths = {mark.index: mark.path for mark in marks if mark.kind == "state"}
        for index in missing:
            file = File(paths.get(index) or self.path / f"{index}.lost", folder, None, {index: nbytes(leaves)})
            file.structures, file.written = [structure], Job()
            if index not in paths:
                file.lost = DamagedState(f"Disk: state {index} is in no file of {self.path} that can be read back")
                file.lost.told = bool(damaged)
            self._large[index] = self._files[index] = file
            self._bytes += file.nbytes
        used = {file.path for file in self._files.values()}
        self.peak_states, self.peak_bytes = max(self.peak_states, len(self)), max(self.peak_bytes, self._bytes)
        self._superseded = [mark.path for mark in marks if mark.kind != "final" and mark.path not in used]
        return damaged

    def save(self, index: int, state: Any) -> None:
        super().save(index, state)
        self._saved.append(index)
        if self._adapts_queue and index in self._large:
            self._queue, self._adapts_queue = max(WRITE_QUEUE, WRITE_QUEUE_BYTES // self._large[index].nbytes), False

    def write_final(self, index: int, leaves: list[Any]) -> None:
        """Write x_{N-1}, for N = `index`, in the background; takes ownership of the leaves."""
        self._submit(self._state_file("final", index, NUMBER, leaves))

    def ready(self) -> bool:
        """Return whether there can be a durable point now; what the writing thread raised is raised."""
        if self._committed is not None:
            if self.every and not self._committed.done:
                self.due = monotonic() + self.every / 8
                return False
            self._committed.result()
        elif self.every and monotonic() < (due := self._began + REST * self._bytes / DISK_RATE):
            self.due = due
            return False
        return True

    def keeps_result(self) -> bool:
        """Return whether there is to be a last point, with the result; the one before is written then."""
        return False

    def commit(self, position: int, leaves: list[Any]) -> None:
        """Make a durable point in the background: with these leaves, which it then owns, all states saved now can be found again."""
        self._here()
        started = monotonic()
        check_leaves(leaves)
        folder = self._open()
        saved = [index for index in dict.fromkeys(self._saved) if index in self._pool and index not in self._files]
        if saved:
            self._start(self._batch(saved))
        for file in self._resident:
            self._start(file)
        parts, self._unsynced, self._saved = self._unsynced, [], []
        for log in folder.logs.values():
            log.flush()
        if self._newest is not None:
            self._superseded.append(self._newest)
        doomed, self._older, self._superseded = self._older, self._superseded, []
        self._newest = path = self._new_path("point", position)

        def put() -> None:
            with folder.writing():
                for part in parts:
                    sync_file(part.path)
                for log in tuple(folder.logs.values()):
                    log.sync()
                sync_file(folder.path / MANIFEST)
                write_leaves(path, position, leaves, sync=True, label=folder.label(path.name))
            remove_files(doomed)
            if self.every:
                ended = monotonic()
                self.due = max(self.due, ended + REST * (ended - started))  # with the states that were written for it before

        self.due = started + self.every
        self._committed = folder.writer.submit(put)

    def log(self, name: str) -> RowLog:
        """Return the log of rows of a sweep, ``"first"`` or ``"reverse"``."""
        return self._open().log(name)

    def read(self, mark: Mark) -> list[Any]:
        """Return the leaves of a file that was found, or raise DamagedState."""
        return read_leaves(mark.path, mark.index, self._open().label(mark.path.name), WHAT.get(mark.kind, ""))

    def peek(self, index: int) -> Any:
        """Return a copy of a saved state without counting it as loaded."""
        state = self.load(index)
        self.loads -= 1
        return state

    def finish(self) -> None:
        """Remove all files: the sweep is done."""
        if self._folder is not None:
            self._open().finished = True
        self.clear()

    def _check_structure(self, index: int, structure: optree.PyTreeSpec) -> None:
        if structure is not self._structure:
            self._structure = self._structure or structure
            if structure != self._structure:
                self.refuse(index, structure, self._structure)

    @staticmethod
    def refuse(index: int, structure: optree.PyTreeSpec, earlier: optree.PyTreeSpec) -> None:
        raise TypeError(
            f"Disk: state {index} has structure {structure}, an earlier one {earlier}; resume=True needs one structure. Drop resume=True, "
            "or, if a Dual enters through a parameter (as in hvp), put that parameter into the state"
        )

    def _new_path(self, kind: str, index: int | None = None) -> Path:
        self._number += 1
        return self._open().path / f"{self._number:015d}-{self._number if index is None else index:012d}.{kind}"

    def _file(self, path: Path, content: list[Record], sizes: dict[int, int]) -> File:
        file = super()._file(path, content, sizes)
        self._unsynced.append(file)
        return file

    def _discard(self, file: File) -> None:
        """Remove a file once there are two points without it, or at once if there was none with it."""
        if file in self._unsynced:
            self._unsynced.remove(file)
            super()._discard(file)
        else:
            self._superseded.append(file.path)

    def _make_folder(self) -> DurableFolder:
        return DurableFolder(self.path, self._shared)

    def _open(self) -> DurableFolder:
        self._here()
        return super()._open()  # type: ignore[return-value]

    def _here(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError(
                f"Disk: this is a fork of process {self._process}, which owns the sweep; continue it there, or drop resume=True"
            )
