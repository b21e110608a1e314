"""A thread that does one job after the other, and that an interrupt can neither lose nor make wait for ever.

The pools of `concurrent.futures` are not used: their conditions are written in Python, and a Ctrl-C between taking the lock of one
and handing it out leaves it locked, so that the thread and the interrupted frame wait for each other. Here every wait is for a lock
of the interpreter itself, with a timeout, and looks at the job again.
"""

from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

__all__ = ["Job", "Worker"]

LOOK_AGAIN = 1.0  # seconds, so that Ctrl-C is heard where a wait for a lock cannot be interrupted


class Job:
    """Work (a callable without arguments) to be done, or, with None, done already."""

    def __init__(self, work: Callable[[], Any] | None = None) -> None:
        self._work, self._value, self._error = work, None, None
        self._ended = work is None
        self._taken, self._gate = allocate_lock(), allocate_lock()
        self._gate.acquire()

    def run(self) -> None:
        if self._taken.acquire(False):
            try:
                self._value = self._work()  # type: ignore[misc]
            except BaseException as error:
                self._error = error  # type: ignore[assignment]
            self._work, self._ended = None, True
            self._gate.release()

    def cancel(self) -> bool:
        """Return whether it is now certain that it is never done, nor begun."""
        return self._taken.acquire(False)

    def done(self) -> bool:
        return self._ended

    def wait(self) -> None:
        """Return when it is done, or has failed."""
        while not self._ended:
            if self._gate.acquire(timeout=LOOK_AGAIN):
                self._gate.release()

    def result(self) -> Any:
        """Wait, and return the result, or raise the error."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._value


class Worker:
    """A thread that runs jobs in order; it starts with the first one."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._running = False
        self._end, self._idents = Job(int), list[int]()

    def submit(self, work: Callable[[], Any]) -> Job:
        job = Job(work)
        if not self._running:
            self._running = True
            try:
                start_new_thread(serve, (self._jobs, self._end, self._idents))
            except RuntimeError:
                self._running = False
                raise
        self._jobs.put(job)
        return job

    def stop(self, cancel: bool = False) -> None:
        """Wait until all jobs are done (with `cancel`, only the one under way) and the thread has ended; may be called again."""
        if not self._running:
            return
        while cancel:
            try:
                self._jobs.get_nowait()
            except Empty:
                break
        self._jobs.put(None)
        self._end.wait()

    def is_current(self) -> bool:
        return get_ident() in self._idents


def serve(jobs: "SimpleQueue[Job | None]", end: Job, idents: list[int]) -> None:
    """Do jobs until there comes None."""
    idents.append(get_ident())
    while (job := jobs.get()) is not None:
        job.run()
        job = None  # its state is freed now, and not when the next job comes
    idents.clear()
    end.run()
