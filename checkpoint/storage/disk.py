"""Saved states in files."""

import os
from dataclasses import dataclass
from pathlib import Path

from dualad.support.checks import flag

from ..support.checks import amount, folder_path, whole_number
from ..support.costs import WRITE_QUEUE
from .storage import Session, Storage


@dataclass(frozen=True, repr=False)
class Disk(Storage):
    """Keep states in files, in a private folder (mode 0700) for every sweep, which is removed when the sweep ends, however it ends.

    A thread writes while the chain goes on, and reads ahead in the reverse sweep. The newest few states (`queue`) are in main memory, and
    one that is dropped before its turn is never written. Small states (numbers and arrays up to 8 MiB) are gathered there, up to
    64 MiB, and written together beyond that. The sweep warns where a quarter of its time is spent waiting for the disk.

    A file is written under a temporary name and renamed, and every byte is checked when it is read. If it cannot be read back, the sweep
    warns, naming the file, and computes the state again. Files hold JSON and the bytes of arrays, no pickle: reading one runs nothing.

    With `resume`, `path` itself is the folder, whose files outlive the process: kill it at any moment, make the same call again,
    and it resumes from the last durable point, with the same bits. At a point the working state, the cotangent, the saved states and, for
    a `chain` with ``outputs=True`` or inputs, a row for every step are synced to disk (fsync). Points take at most a twentieth of the
    time. The files are removed when the reverse sweep has ended. One sweep at a time may use the folder. For an optimizer there is `Fit`.

    A call with another step, `until`, parameter, token, x_0, schedule or number of steps is refused by that name. Other dependencies of a
    step show in its results: the first step, the first pull and the steps to the state that was pulled last are repeated, and
    other bits are refused. `chain` also compares the states of both processes where they meet. Give the rest as token.

    Parameters
    ----------
    path : folder in which each sweep creates its own; created if missing. The default is the system's folder for temporary files, which may
        be in main memory.
    queue : most large states in main memory, at least 1: beyond that, saving waits for the disk. With as many as the schedule keeps (about
        log2 N with `CTZ`), only durable points are written. By default 2; with `resume` as many more as 1 GiB holds.
    resume : keep the files when the sweep is interrupted, and go on from those that are found in `path`, which has to be given.
    every : with `resume`: seconds from one durable point to the next, at least; that much work may be lost. 0: a point after every step and
        every pull.
    shared : with `resume`: leave other files in `path` alone, instead of refusing the folder.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, or `resume` goes without `path`, or `shared` without `resume`.

    Examples
    --------
    >>> session = Disk().open()
    >>> session.save(0, {"u": 4.5, "name": "run"})
    >>> session.load(0), 0 in session, session.nbytes()
    ({'u': 4.5, 'name': 'run'}, True, 8)
    >>> session.clear()
    """

    path: str | os.PathLike[str] | None = None
    queue: int | None = None
    resume: bool = False
    every: float = 1.0
    shared: bool = False

    def __post_init__(self) -> None:
        if self.path is not None:
            object.__setattr__(self, "path", folder_path(self.path, "Disk"))
        if self.queue is not None:
            hint = "give the number of states that may wait to be written"
            object.__setattr__(self, "queue", whole_number(self.queue, where="Disk", argument="queue", least=1, hint=hint))
        if flag(self.resume, where="Disk", argument="resume") and self.path is None:
            raise ValueError("Disk: resume=True needs a path: the folder to go on from, one for each sweep")
        object.__setattr__(self, "durable", self.resume)
        object.__setattr__(self, "every", amount(self.every, "seconds", where="Disk", argument="every"))
        if flag(self.shared, where="Disk", argument="shared") and not self.resume:
            raise ValueError("Disk: shared goes with resume=True; without it, every sweep makes a folder of its own in path")

    def open(self) -> Session:
        """A new, empty session, whose folder is made when something is saved."""
        path = None if self.path is None else Path(self.path)
        if self.resume and path is not None:
            from ..durable.journal import DurableSession

            return DurableSession(path, self.queue, self.shared, self.every)
        from .background import DiskSession  # with its threads

        return DiskSession(path, self.queue or WRITE_QUEUE)
