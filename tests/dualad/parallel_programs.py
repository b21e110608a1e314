"""Functions that processes import: of one array, slow or deadly where a test asks for it."""

import os
import signal
import time
from pathlib import Path

import numpy as np

import dualad

X = np.linspace(-1.0, 1.0, 12)
M = np.cos(np.arange(60.0)).reshape(5, 12)


def f(x):
    return np.tanh(M @ x) * np.sum(x[::2] ** 2)


def banded(x):
    return np.sin(x[1:]) * x[:-1]


compiled = dualad.jit(f)


@dualad.jit
def decorated(x):
    return np.tanh(M @ x) * np.sum(x[::2] ** 2)


def pair(x, scale=1.0):
    return {"a": scale * f(x), "b": (x[0] * x[1], np.sin(x))}


class Unsendable:
    def __reduce__(self):
        raise ValueError("not me")


def with_aux(x):
    return f(x), "aux"


def slow(x):
    time.sleep(0.05)
    return f(x)


def failing(x):
    raise ZeroDivisionError("mine")


def deadly(x):
    os.kill(os.getpid(), signal.SIGKILL)


def random(x):
    return x * np.random.default_rng(time.perf_counter_ns()).normal()


def noted(x, folder):
    """The function f, which leaves a file for each evaluation."""
    Path(folder, f"{os.getpid()}-{time.perf_counter_ns()}").touch()
    time.sleep(0.1)
    return f(x)


def energy(x):
    return np.sum(f(x) ** 2) + np.sum(np.cos(x))


def some_fail(x):
    if x[0] > 2.5:
        raise ValueError(f"no solution at {x[0]}")
    return np.sum(x**3)


def some_die(x):
    if x[0] > 2.5:
        os.kill(os.getpid(), signal.SIGKILL)
    return np.sum(x**3)
