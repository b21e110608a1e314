"""A worker thread that runs one job after the other, and that an interrupt can neither lose nor block.

The pools of `concurrent.futures` are not used: their conditions are written in Python, and a Ctrl-C between taking the lock of one
and handing it out leaves it locked, so that the thread and the interrupted frame wait for each other. Here every wait is for a lock
of the interpreter itself, with a timeout, and looks at the job again.
"""

from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

LOOK_AGAIN = 1.0  # seconds, so that Ctrl-C is heard where a wait for a lock cannot be interrupted


class Job:
    """A callable without arguments that a worker calls; None: done already."""

    def __init__(self, work: Callable[[], Any] | None = None) -> None:
        self.work, self.value, self.error = work, None, None
        self.done = work is None
        self.taken, self.gate = allocate_lock(), allocate_lock()
        self.gate.acquire()

    def run(self) -> None:
        if self.taken.acquire(False):
            try:
                self.value = self.work()  # type: ignore[misc]
            except BaseException as error:
                self.error = error  # type: ignore[assignment]
            self.work, self.done = None, True
            self.gate.release()

    def cancel(self) -> bool:
        """Return whether it is now certain that it is never done, nor begun."""
        return self.taken.acquire(False)

    def wait(self) -> None:
        """Return when it is done, or has failed."""
        while not self.done:
            if self.gate.acquire(timeout=LOOK_AGAIN):
                self.gate.release()

    def result(self) -> Any:
        """Wait, and return the result, or raise the error."""
        self.wait()
        if self.error is not None:
            raise self.error
        return self.value


class Worker:
    """A thread that runs jobs in order; it starts with the first one."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.running, self.ident = False, 0
        self.end = Job(int)

    def submit(self, work: Callable[[], Any]) -> Job:
        job = Job(work)
        if not self.running:
            self.running = True
            try:
                start_new_thread(self.serve, ())
            except RuntimeError:
                self.running = False
                raise
        self.jobs.put(job)
        return job

    def stop(self, cancel: bool = False) -> None:
        """Wait until all jobs are done (with `cancel`, only the one under way) and the thread has ended; may be called again."""
        if not self.running:
            return
        with suppress(Empty):
            while cancel:
                self.jobs.get_nowait()
        self.jobs.put(None)
        self.end.wait()

    def is_current(self) -> bool:
        return get_ident() == self.ident

    def serve(self) -> None:
        """Run jobs until one is None."""
        self.ident = get_ident()
        while (job := self.jobs.get()) is not None:
            job.run()
            job = None  # its state is freed now, and not when the next job comes
        self.ident = 0
        self.end.run()
