"""A folder that outlives the process: its lock, its manifest, and which files in it are those of a sweep.

A folder belongs to the sweep whose manifest is in it. Only files with names that are given here are ever touched, no link is followed,
and nothing is removed before the manifest has been read. Every file bears the number of the run that the manifest states.
"""

import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple
from zlib import crc32

from ..storage.background import LOCK, Folder
from ..storage.files import made_folder, of_others, opened, sync_file, write_file
from ..storage.lock import Lock
from ..storage.storage import DamagedState
from .log import RowLog

__all__ = ["ANEW", "DurableFolder", "Mark", "checked", "listed", "remove_files", "survey", "warn", "write_manifest"]

MANIFEST, DONE, TEMPORARY = "manifest.json", "finished.json", "manifest.json.tmp"
LOGS = ("first", "reverse")
MARK = re.compile(r"([0-9]{15})-([0-9]{12})\.(state|batch|final|point)")
ROWS = re.compile(rf"({'|'.join(LOGS)})\.rows")
OURS = re.compile(rf"{MARK.pattern}(\.tmp)?|{ROWS.pattern}|{MANIFEST}|{DONE}|{LOCK}|{TEMPORARY}".replace(".json", r"\.json"))
FORMAT = "sweep of checkpoint, 6"
SIGNATURE = json.dumps({"format": FORMAT})[:-1].encode()  # the beginning of a manifest
ANEW = "remove the folder to begin anew"


class Mark(NamedTuple):
    """A file that was found; `kind` is ``"state"``, ``"batch"`` (of small states), ``"final"`` or ``"point"``."""

    number: int  # ascending in the order of writing
    index: int  # type: ignore[assignment]  # of the state (N: x_N), else the number in the file's name; hides tuple.index
    kind: str
    path: Path


class DurableFolder(Folder):
    """A folder that one sweep at a time has, under its lock; a `shared` one may hold other files too.
    `run`: id of the run, after `begin`; `error`: of the writer, which then stops; `finished`: the files may be removed."""

    def __init__(self, path: Path, shared: bool) -> None:
        super().__init__(path)
        self.path, self.shared = path, shared
        self.run, self.finished = "", False
        self.logs: dict[str, RowLog] = {}
        self.error: BaseException | None = None
        self._unsynced = True  # the manifest
        self.lock = Lock(path / LOCK)

    def open(self) -> None:
        made_folder(self.path, "Disk")
        self.survey()
        self.lock.acquire()

    def begin(self, call: Mapping[str, Any]) -> list[Mark]:
        """Return the files that an earlier process left of the same call (a JSON mapping), in the order of writing.
        ValueError if the call differs, naming the parts; FileExistsError for foreign files; DamagedState for a damaged manifest."""
        names = self.survey()
        if MANIFEST in names:
            there = read_manifest(self.path / MANIFEST)
            self.run = there["run"]
            self._same(there["call"], dict(call))
            remove_files(self.path / name for name in names if name.endswith(".tmp"))
            return self.marks()
        if DONE in names:  # its sweep was ended while it removed its files
            read_manifest(self.path / DONE)
            self.remove_all()
        elif TEMPORARY in names:
            self._check_temporary()
            remove_files([self.path / TEMPORARY])
        elif left := sorted(names - {LOCK}):
            anybodys = f"Disk: there is {listed(left)}, but no {MANIFEST}, so that they may be anybody's; give another folder, or {ANEW}"
            raise of_others(anybodys, self.path)
        self.run = token_hex(8)
        write_manifest(self.path / MANIFEST, {"format": FORMAT, "run": self.run, "call": dict(call)})
        return []

    @contextmanager
    def writing(self) -> Iterator[None]:
        """What the thread writes: after an error nothing more, or a later file could claim what an earlier one lacks."""
        if self.error is not None:
            raise self.error
        try:
            yield
        except BaseException as error:
            self.error = error
            raise

    def sync(self) -> None:
        """Force the manifest onto the disk itself, once."""
        if self._unsynced:
            sync_file(self.path / MANIFEST)
            self._unsynced = False

    def survey(self) -> set[str]:
        """Return the names in the folder that are a sweep's; FileExistsError if there are others and the folder is not shared."""
        ours, others = survey(self.path, OURS, None, "Disk", "a sweep")
        if others and not self.shared:
            raise of_others(
                f"Disk: the folder has other files ({listed(others)}); with resume=True use a folder of its own, or shared=True, "
                "which leaves them alone",
                self.path,
            )
        return ours

    def marks(self) -> list[Mark]:
        """The states, points and x_N in the folder."""
        found = ((MARK.fullmatch(file.name), file) for file in self.path.iterdir())
        return sorted(Mark(int(match[1]), int(match[2]), match[3], file) for match, file in found if match)

    def label(self, name: str) -> str:
        """What a file of this name says of itself, if it is of this run."""
        return f"{self.run}/{name}"

    def log(self, name: str) -> RowLog:
        if name not in self.logs:
            self.logs[name] = RowLog(self.path / f"{name}.rows", self.label(f"{name}.rows"))
        return self.logs[name]

    def stop(self) -> None:
        """Let both threads end their work, remove the files if the sweep is finished, and give the folder free; may be called again."""
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

    def _same(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        differing = [name for name in {**there, **here} if there.get(name) != here.get(name)]
        if differing:
            names = ", ".join(f"{name} ({_short(there.get(name))} there, {_short(here.get(name))} here)" for name in differing)
            raise ValueError(f"Disk: {self.path} belongs to another call; it differs in: {names}. Repeat the same call, or {ANEW}")

    def _check_temporary(self) -> None:
        """Raise where the beginning of a manifest is that of something else."""
        with opened(self.path / TEMPORARY) as file:
            found = file.read(len(SIGNATURE))
        if not SIGNATURE.startswith(found):
            raise of_others("Disk: this file was not made here; give another folder, or move it", self.path / TEMPORARY)


def write_manifest(path: Path, content: Mapping[str, Any], sync: bool = False) -> None:
    """Write what says whose a folder is: a JSON mapping, whose first entry is ``"format"``, with its checksum."""
    write_file(path, [json.dumps({**content, "crc32": _sum(content)}).encode()], "the manifest", sync)


def checked(data: bytes, form: str) -> dict[str, Any] | None:
    """What the bytes of a manifest say; None if it has been altered, is of another format, or was not made here."""
    try:
        content = json.loads(data)
        if content.pop("crc32") == _sum(content) and content["format"] == form:
            return dict(content)
    except Exception:  # whatever altered bytes lead to
        pass
    return None


def read_manifest(path: Path) -> dict[str, Any]:
    """What the manifest of a sweep says, a mapping with ``"run"`` and ``"call"``."""
    reason = "it has been altered, is of another version of this package, or was not made here"
    try:
        with opened(path) as file:
            content = checked(file.read() or b"", FORMAT)
    except OSError as error:
        content, reason = None, error.strerror or str(error)
    if content is None:
        raise DamagedState(f"Disk: {path} cannot be read back: {reason}; {ANEW}")
    return content


def survey(path: Path, files: re.Pattern[str], folders: re.Pattern[str] | None, where: str, owner: str) -> tuple[set[str], list[str]]:
    """Return the names in a folder that are its owner's, and the others, sorted.
    FileExistsError for something that has the name of an ordinary file, or folder, of the owner's, and is none."""
    ours, others = set(), []
    with os.scandir(path) as entries:
        for entry in entries:
            is_folder = folders is not None and folders.fullmatch(entry.name) is not None
            if not is_folder and not files.fullmatch(entry.name):
                others.append(entry.name)
            elif (entry.is_dir if is_folder else entry.is_file)(follow_symlinks=False):
                ours.add(entry.name)
            else:
                kind = "folder" if is_folder else "ordinary file"
                raise of_others(f"{where}: no {kind}, where {owner} has one; give another folder, or move it", entry.path)
    return ours, sorted(others)


def remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def warn(message: str) -> None:
    """Warn of what is lost, and made again."""
    warnings.warn(message, RuntimeWarning, stacklevel=5)


def listed(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _sum(content: Mapping[str, Any]) -> int:
    return crc32(json.dumps(content, sort_keys=True).encode())


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
