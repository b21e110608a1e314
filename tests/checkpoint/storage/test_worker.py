"""A thread that does one job after the other."""

import threading

import pytest

from checkpoint.storage import worker as module
from checkpoint.storage.worker import Job, Worker


def test_stop_may_leave_undone_what_is_not_begun():
    worker, entered, go, done = Worker(), threading.Event(), threading.Event(), []
    worker.submit(lambda: (entered.set(), go.wait(10)))
    worker.submit(lambda: done.append(1))
    assert entered.wait(10)
    stopper = threading.Thread(target=worker.stop, args=(True,))
    stopper.start()
    stopper.join(0.05)
    assert stopper.is_alive()
    go.set()
    stopper.join(10)
    assert done == [] and not stopper.is_alive()


def test_an_interrupted_wait_does_not_stop_the_next_one(monkeypatch):
    """The gate was taken by a frame that is gone: who waits looks at the job itself, again and again."""
    monkeypatch.setattr(module, "LOOK_AGAIN", 0.01)
    job = Job(lambda: 3)
    waiter = threading.Thread(target=job.wait)
    waiter.start()
    job.taken.acquire()
    job.value, job.done = 3, True  # done, but the gate stays shut
    waiter.join(10)
    assert not waiter.is_alive() and job.result() == 3


def test_no_thread_is_no_worker(monkeypatch):
    def none_left(*arguments):
        raise RuntimeError("can't start new thread")

    worker = Worker()
    with monkeypatch.context() as patch:
        patch.setattr(module, "start_new_thread", none_left)
        with pytest.raises(RuntimeError, match="can't start"):
            worker.submit(int)
    worker.stop()
    assert worker.submit(lambda: 1).result() == 1
    worker.stop()
