"""Work on executors (threads, processes, machines): chunks of it in order, and clear errors where one is lost."""

from __future__ import annotations

import os
import pickle
import threading
from collections import deque
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor, ThreadPoolExecutor, wait
from typing import Any
from weakref import WeakKeyDictionary

HERE = threading.local()  # its attribute `waiting`: the threads that wait for the task that runs in this one
USED_BY: WeakKeyDictionary = WeakKeyDictionary()  # executor -> the process that used it first


def check_executor(executor, where):
    """Raise where something is no executor of `concurrent.futures`."""
    if executor is None:
        return
    if isinstance(executor, type):
        raise TypeError(f"{where}: executor is the class {executor.__name__}: give an executor, {executor.__name__}()")
    if getattr(getattr(executor, "_client", None), "status", None) in ("closing", "closed"):
        raise RuntimeError(
            f"{where}: the dask client that executor= belongs to is closed, or has lost its cluster: make a new client, and give its "
            f"client.get_executor()"
        )
    if hasattr(executor, "get_executor"):
        raise TypeError(f"{where}: executor is a {type(executor).__name__}: give its executor, client.get_executor()")
    if not (hasattr(executor, "submit") and hasattr(executor, "shutdown")):
        raise TypeError(
            f"{where}: executor is {executor!r}: give an executor of concurrent.futures (ThreadPoolExecutor for compiled code, "
            f"ProcessPoolExecutor for NumPy code), or client.get_executor() of dask.distributed"
        )


class Unpicklable(TypeError):
    """Something cannot be sent to other processes."""


class Crew:
    """The workers of an executor, for one call of a verb.

    A context: however it is left, what has not begun is cancelled, and what runs is waited for.
    """

    def __init__(self, executor, where, shipped):
        self.executor, self.where, self.shipped = executor, where, shipped
        self.running = {}  # future -> what it computes, in words

    def __enter__(self):
        self.check_free()
        return self

    def __exit__(self, kind, error, traceback):
        waiting = [future for future in self.running if not future.cancel()]
        self.running.clear()
        wait(waiting)

    def check_free(self):
        """Raise where tasks of the executor would wait for ever: its threads wait for them, or are those of another process."""
        executor, where, kind = self.executor, self.where, type(self.executor).__name__
        if isinstance(executor, ThreadPoolExecutor) and not threads_of(executor).isdisjoint(waiting_threads()):
            raise RuntimeError(
                f"{where}: this call runs in a task of the {kind} that it is given as executor=. Its tasks might wait for a free thread "
                f"for ever. Leave executor= out of the inner call, or give it another executor"
            )
        if isinstance(executor, ThreadPoolExecutor | ProcessPoolExecutor) and USED_BY.setdefault(executor, os.getpid()) != os.getpid():
            raise RuntimeError(
                f"{where}: the {kind} belongs to the process from which this one was forked, and would wait for ever. Leave executor= "
                f"out of calls in worker processes, or make an executor there"
            )

    @property
    def workers(self):
        """How many work at once, as far as the executor tells."""
        count = getattr(self.executor, "_max_workers", None)
        if count is None and (client := getattr(self.executor, "_client", None)) is not None:
            count = sum(client.ncores().values())
        return max(count or os.cpu_count() or 1, 1)

    def lanes(self, size, lanes, chunk):
        """Return how many directions to send at once: so few that every worker gets some twice, unless the caller has chosen."""
        return max(1, min(lanes, -(-size // (2 * self.workers)))) if chunk is None else lanes

    def submit(self, name, task, *args):
        """Give the executor a task; `name` says what it computes."""
        try:
            if isinstance(self.executor, ThreadPoolExecutor):
                task, args = run_awaited, (waiting_threads(), task, *args)
            future = self.executor.submit(task, *args)
        except Exception as error:
            raise self.explained(error, name) from error
        self.running[future] = name
        return future

    def result(self, future):
        """Return the result of a future; an error tells what was lost."""
        try:
            result = future.result()
        except (Exception, CancelledError) as error:
            name = self.running.pop(future)
            explained = self.explained(error, name)
            if explained is error:
                error.add_note(f"{self.where}: raised while a worker computed {name}")
                raise
            raise explained from error
        del self.running[future]
        return result

    def explained(self, error, name):
        """Return an error that says what happened to the executor, or the error itself if it is the function's own."""
        where, kind = self.where, type(self.executor).__name__
        if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
            return RuntimeError(
                f"{where}: a worker of the {kind} died while {name} was computed (killed, out of memory, or a crash in compiled code): "
                f"start a new executor; a smaller chunk= or memory= takes less memory"
            )
        if isinstance(error, CancelledError):
            return RuntimeError(f"{where}: the {kind} was shut down, or cancelled {name}, before it was computed")
        if not isinstance(self.executor, ThreadPoolExecutor) and cannot_pickle(error):
            instead = "or use a ThreadPoolExecutor"
            if hasattr(self.executor, "_client"):
                from cloudpickle import dumps
            else:
                dumps, instead = pickle.dumps, f"{instead}, or dask (client.get_executor()), which pickles closures too"
            for what, thing in self.shipped.items():
                try:
                    dumps(thing)
                except Exception as reason:
                    return Unpicklable(
                        f"{where}: the {kind} sends {what} to other processes, and it cannot be pickled ({reason}): define it at the top "
                        f"level of a module, {instead}"
                    )
        if isinstance(error, RuntimeError) and "after shutdown" in str(error):
            return RuntimeError(f"{where}: the {kind} is shut down and takes no more work: call {where} inside its with statement")
        return error

    def in_order(self, spans, name, task, args):
        """Yield (start, stop, result of ``task(*args, start, stop)``) of spans of work, in order, two a worker at once."""
        window: deque[Any] = deque()
        most = 2 * self.workers
        for span in spans:
            window.append((span, self.submit(f"{name} {span[0]} to {span[1] - 1}", task, *args, *span)))
            if len(window) == most:
                span, future = window.popleft()
                yield *span, self.result(future)
        while window:
            span, future = window.popleft()
            yield *span, self.result(future)


def cannot_pickle(error):
    """Return whether an error may say that something could not be sent: its cause shows where a process pool was."""
    return isinstance(error, pickle.PicklingError) or any(word in f"{error} {error.__cause__}" for word in ("ickle", "erialize"))


def threads_of(executor):
    """Return the threads of a pool; under its lock, because a thread is started before it is noted."""
    with executor._shutdown_lock:
        return set(executor._threads)


def waiting_threads():
    """Return this thread, and those that wait for what it does."""
    return threading.current_thread(), *getattr(HERE, "waiting", ())


def run_awaited(waiting, task, *args):
    """Do a task for which threads wait."""
    HERE.waiting = waiting
    try:
        return task(*args)
    finally:
        del HERE.waiting
