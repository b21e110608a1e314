"""Saved states in files."""

import os
from dataclasses import dataclass
from pathlib import Path

from ..support.checks import amount, flag, folder_path, whole_number
from ..support.costs import WRITE_QUEUE
from .storage import Session, Storage

__all__ = ["Disk"]


@dataclass(frozen=True, repr=False)
class Disk(Storage):
    """Keep states in files, in a folder of their own for every sweep.

    A state is copied when it is saved. The newest few of them (`queue`) stay in main memory, and a thread writes the oldest of those, in a
    file of its own, while the chain goes on; what is dropped before that is never written. In the reverse sweep the state that is
    needed next is read ahead, so that one more is in main memory. Small states (up to 8 MiB of numbers and arrays) are gathered there,
    up to 64 MiB of them, and written together beyond that. Where more than a quarter of the time is spent waiting for the disk, the
    sweep warns: where there is memory for it, a larger `queue` leaves less to be written.

    A file is written under a temporary name and renamed, and every byte is checked when it is read. If it cannot be read
    back, the sweep warns, naming the file, and computes the state again from an earlier one. Files hold JSON and the bytes
    of arrays, no pickle, so reading one runs nothing.

    The folder (mode 0700) is removed when the reverse sweep ends, when anything raises, when the sweep is lost, and when the
    interpreter exits.

    With `resume`, `path` itself is the folder, and what is in it outlives the process: kill it at any moment, make the same
    call again, and it goes on from the last durable point, to the same bits. There is one every second (`every`), at any step of
    either sweep: the working state, the cotangent and the saved states are forced onto the disk (fsync) in the background, and, of a
    `chain` with ``outputs=True`` or a gradient by its inputs, a row for every step. Where that takes long, because states are large,
    there are fewer: so many that they take a twentieth of the time. The files are removed when the reverse sweep has ended. The folder is
    for this sweep alone: a second one is refused while the first is at work, and a folder in which there is anything else is refused,
    unless it is said to be `shared`. For many calls, as of an optimizer, there is `Fit`.

    A call that differs in the step's source, in `until`, in a parameter, the token, x_0, the schedule or the number of steps is refused
    by that name. What else a step depends on shows in its results: before anything else the first step is made again, the first pull,
    and the steps from the newest saved state to the one that was pulled last; if they give other bits than they gave, the call is
    refused. What these cannot show, `chain` finds in its reverse sweep, where the states of the two processes meet; or say it in the
    token. A damaged file is named in a warning, and what was in it is computed again.

    Parameters
    ----------
    path : str or Path, optional
        Folder in which the folders of the sweeps are made, and made itself if it is not there. The default is the system's
        folder for temporary files; mind that this may be in main memory.
    queue : int, optional
        Most large states in main memory, at least 1: beyond that, saving waits until the oldest is written. With as many as the
        schedule keeps (about log2 N with `CTZ`), nothing is written, but, with `resume`, what a durable point needs. By default 2;
        with `resume`, which is for what outlives the process, as many more as 1 GiB holds.
    resume : bool
        Keep the files when the sweep is interrupted, and go on from those that are found in `path`, which has to be given.
    every : float
        With `resume`: seconds from one durable point to the next, at least; that much work may be lost. 0: a point after every step
        and every pull, and waiting for the disk each time.
    shared : bool
        With `resume`: there may be other files in `path`. They are left alone; one that has a name which the sweep needs is an error.

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
        amount(self.every, "seconds", where="Disk", argument="every")
        if flag(self.shared, where="Disk", argument="shared") and not self.resume:
            raise ValueError("Disk: shared goes with resume=True; without it, every sweep makes a folder of its own in path")

    @property
    def durable(self) -> bool:
        return self.resume

    def open(self) -> Session:
        """A new, empty session, whose folder is made when something is saved."""
        path = None if self.path is None else Path(self.path)
        if self.resume and path is not None:
            from ..durable.journal import DurableSession

            return DurableSession(path, self.queue, self.shared, self.every)
        from .background import DiskSession  # with its threads

        return DiskSession(path, self.queue or WRITE_QUEUE)
