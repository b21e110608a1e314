"""The folder of a fit: its owner, the results of all evaluations, and interrupted evaluations."""

import atexit
import errno
import json
import os
import re
import shutil
from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from math import inf
from pathlib import Path
from secrets import token_hex
from threading import RLock
from time import monotonic
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from dualad.support.forks import in_child, lock_of

from ..storage import DamagedState
from ..storage.background import LOCK
from ..storage.files import Lock, make_folder, open_file
from ..storage.states import copy_state
from .log import ResultFile
from .session import listing, parse_manifest, survey, warn, write_manifest

MANIFEST, TEMPORARY = "fit.json", "fit.json.tmp"
FORMAT = "fit of checkpoint, 4"
SIGNATURE = json.dumps({"format": FORMAT})[:-1].encode()  # the beginning of a manifest
FAMILY = SIGNATURE[: SIGNATURE.index(b",") + 1]  # the same in all versions
RESULTS = re.compile(r"results(-[0-9]+-[0-9a-f]{8})?\.log")
FILES = re.compile(rf"{RESULTS.pattern}|{re.escape(MANIFEST)}|{LOCK}")
INTERRUPTED = re.compile(r"([0-9]{12})-([0-9a-f]{32})(-[0-9]+)?\.(evaluation|removed)")
ANEW = "give another folder, or remove this one to begin anew"
OPEN: dict[str, "FitFolder"] = {}  # of this process, until it ends


class FitFolder:
    """The folder of a fit, locked by one process until it ends; forks read it and append to files of their own. See `opened_at`.
    `began`: when it was opened (`time.monotonic`); `compared`: seconds spent on comparing results."""

    def __init__(self, path: Path) -> None:
        self.path, self.began, self.compared = path, monotonic(), 0.0
        self.process = os.getpid()
        self.lock = None
        self.under_way: WeakValueDictionary[str, AbstractContextManager[Any]] = WeakValueDictionary()  # by keys, of those under way
        self.memory: dict[str, list[Any]] = {}  # results that could not be written
        self.files: list[ResultFile] = []
        self.writer: ResultFile | None = None
        self.interrupted: dict[str, Path] = {}  # evaluations that were interrupted, or are under way, oldest first
        self.number = 0
        self.content: dict[str, Any] = {}
        self.synced = -inf
        self.lock_file = Lock(path / LOCK)

    @staticmethod
    def opened_at(path: Path) -> "FitFolder":
        """Return this process's folder at a path, made if missing, and locked.
        Raises FileExistsError if there are foreign files, BlockingIOError if another process has it."""
        make_folder(path, "Fit")
        name = os.path.realpath(path)
        folder = OPEN.get(name)
        if folder is None or (folder.process == os.getpid() and not (folder.lock_file.held() and folder.lock_file.exists())):
            folder = FitFolder(path)
            folder.open()
            OPEN[name] = folder
        return folder

    # --- whose it is --------------------------------------------------------------------------------------------------

    def register(self, name: str, read: Mapping[str, str], token: str) -> tuple[dict[str, str], set[str]]:
        """Register a function, or compare it with the registered one: return what it read then, and the parts that it changes itself.
        ValueError if the function or the token is another one, naming what differs."""
        content = self.content
        known = content["functions"].get(name)
        own = set(known["own"]) if known else set()
        noted = known["read"] if known else dict(read)
        changed = changed_parts(noted, read, own)
        if content["token"] not in (None, token):
            changed.insert(0, "token")
        if changed:
            raise ValueError(
                f"Fit: {self.path} belongs to another function {name}; it differs in: {listing(changed, 6)}. Use another folder, or give "
                "each function its own name, fit(f, name=...)"
            )
        if content["numpy"] != np.__version__:
            warn(
                f"Fit: {self.path} was written with NumPy {content['numpy']}, this is {np.__version__}: stored and new results may differ "
                "in the last digits. Use another folder to compute all with one version"
            )
        if known is None or content["token"] is None or content["numpy"] != np.__version__:
            content["functions"].setdefault(name, {"read": noted, "own": []})
            content["token"], content["numpy"] = token, np.__version__
            self.write_manifest()
        return noted, own

    def note_own(self, name: str, parts: set[str]) -> None:
        with lock_of(self):
            self.content["functions"][name]["own"] = sorted(parts)
            try:
                self.write_manifest()
            except OSError as error:
                warn(f"Fit: cannot write {self.path / MANIFEST}: {error.strerror or error}")

    # --- results ------------------------------------------------------------------------------------------------------

    def answer(self, key: str) -> list[Any] | None:
        """Return the leaves of a result; None if none can be read back."""
        found = self.memory.get(key)
        if found is not None:
            return copy_state(found)  # type: ignore[no-any-return]
        for file in reversed(self.files):
            if key in file.places:
                try:
                    return file.read(key)
                except DamagedState as error:
                    file.places.pop(key, None)
                    warn(f"{error}; it is computed again")
        return None

    def keep(self, key: str, leaves: Sequence[Any], every: float) -> bool:
        """Write a result; where that fails, it stays in main memory. Return whether it is written."""
        with lock_of(self):
            self.memory[key] = copy_state(list(leaves))
            try:
                writer = self.writer
                if writer is None:
                    fork = f"-{os.getpid()}-{token_hex(4)}" if self.process != os.getpid() else ""
                    self.writer = writer = ResultFile(self.path / f"results{fork}.log")
                    self.files.append(writer)
                for waiting in list(self.memory):
                    writer.append(waiting, self.memory[waiting])
                    del self.memory[waiting]
                if monotonic() - self.synced >= every:
                    writer.sync()
                    self.synced = monotonic()
            except OSError as error:
                warn(
                    f"Fit: cannot write a result into {self.path}: {error.strerror or error}. It stays in memory until the next write; "
                    "free space on the disk"
                )
            return key not in self.memory

    def evaluating(self, key: str) -> AbstractContextManager[Any]:
        """Return the lock of evaluations with one key: the other threads wait for it, and find the result."""
        with lock_of(self):
            return self.under_way.setdefault(key, RLock())

    # --- evaluations that were interrupted ----------------------------------------------------------------------------

    def evaluation(self, key: str) -> Path:
        """Return the folder of an evaluation that begins or goes on, from now on the newest."""
        with lock_of(self):
            self.number += 1
            known = self.interrupted.pop(key, None)
            fork = "" if self.process == os.getpid() else f"-{os.getpid()}"  # the process before may be at work in the known one
            path = self.path / f"{self.number:012d}-{key}{fork}.evaluation"
            if known is not None and not fork:
                with suppress(FileNotFoundError):
                    os.rename(known, path)
            self.interrupted[key] = path
            return path

    def remove_evaluation(self, key: str) -> None:
        with lock_of(self):
            path = self.interrupted.pop(key, None)
        if path is not None:
            remove_tree(path)

    def prune(self, keep: int, under_way: Container[str]) -> None:
        """Remove the oldest of the evaluations that were interrupted."""
        if len(self.interrupted) > keep and self.process == os.getpid():
            with lock_of(self):
                candidates = [key for key in self.interrupted if key not in under_way]
                doomed = [self.interrupted.pop(key) for key in candidates[: max(len(candidates) - keep, 0)]]
            for path in doomed:
                remove_tree(path)

    # --- the folder itself --------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.survey()
        try:
            self.lock_file.acquire()
        except BlockingIOError:
            raise BlockingIOError(
                errno.EAGAIN,
                f"Fit: process {self.lock_file.owner()} uses this folder; wait until it ends, or use another folder. To evaluate in "
                "parallel, use threads or forks of one process",
                str(self.path),
            ) from None
        try:
            self.take_over(self.survey())
        except BaseException:
            self.close()
            raise

    def survey(self) -> set[str]:
        """Return the names of the files; FileExistsError if there are others, or if one is no ordinary file."""
        ours, others = survey(self.path, FILES, INTERRUPTED, "Fit", "a fit")
        if others := [name for name in others if name != TEMPORARY]:
            raise FileExistsError(
                f"Fit: {self.path} holds other files ({listing(others)}); give it a folder of its own, or remove what is left"
            )
        return ours

    def take_over(self, names: set[str]) -> None:
        """Read what an earlier process has left, and remove what it was about to."""
        (self.path / TEMPORARY).unlink(missing_ok=True)
        data = b""
        if MANIFEST in names:
            with open_file(self.path / MANIFEST) as manifest:
                data = manifest.read() or b""
        content = parse_manifest(data, FORMAT)
        is_ours = SIGNATURE.startswith(data[: len(SIGNATURE)])
        if data.startswith(FAMILY) and not is_ours:
            raise ValueError(  # before anything of it is touched
                f"Fit: {self.path} was written by another version of this package; finish that fit with that version, or {ANEW}"
            )
        for name in sorted(names):
            if RESULTS.fullmatch(name):
                file = ResultFile(self.path / name)
                self.files.append(file)
                if name == "results.log":
                    self.writer = file
                if file.damaged:
                    warn(f"Fit: {file.path} is damaged; the results that it has lost are computed again")
        known = any(file.places for file in self.files)
        if content is None and MANIFEST in names and not known and not is_ours:
            raise FileExistsError(f"Fit: {self.path / MANIFEST} was not made here; {ANEW}")
        if content is None and (MANIFEST in names or known):
            how = "damaged" if MANIFEST in names else "lost"
            warn(f"Fit: {self.path / MANIFEST} is {how} and is rewritten; its results serve the same functions only")
        self.content = content or {"token": None, "numpy": np.__version__, "functions": {}}
        for name in sorted(names):
            if match := INTERRUPTED.fullmatch(name):
                if match[4] == "removed" or any(match[2] in file.places for file in self.files):
                    remove_tree(self.path / name)
                    continue
                self.number = max(self.number, int(match[1]))
                before = self.interrupted.pop(match[2], None)
                self.interrupted[match[2]] = self.path / name
                if before is not None:
                    remove_tree(before)

    def write_manifest(self) -> None:
        if self.process == os.getpid():
            write_manifest(self.path / MANIFEST, {"format": FORMAT} | self.content, sync=True)

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.lock_file.release()


@atexit.register
def give_free() -> None:
    while OPEN:
        OPEN.popitem()[1].close()


def forked() -> None:
    """In a forked child, give each folder fresh locks and result files of its own."""
    for folder in OPEN.values():
        folder.under_way, folder.writer = WeakValueDictionary(), None


in_child(forked)


def changed_parts(before: Mapping[str, str], now: Mapping[str, str], own: set[str]) -> list[str]:
    """Return the parts of what a function reads that are not as they were, without those that it changes itself."""
    changed = [part for part in {**before, **now} if before.get(part) != now.get(part) and part not in own]
    return [part for part in changed if not any(part.startswith((f"{name}.", f"{name}[", f"{name}, ")) for name in own)]


def remove_tree(path: Path) -> None:
    """Remove a folder, which is renamed first, so that no process finds a part of it."""
    doomed = path.with_suffix(".removed")
    with suppress(OSError):
        os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)
