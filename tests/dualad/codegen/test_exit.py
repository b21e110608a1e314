"""A process that has compiled something ends as any other: machine code and what CPython reads of it outlive the interpreter."""

import pytest
from other_processes import output_of

pytestmark = pytest.mark.slow

pytest.importorskip("llvmlite")

PROGRAM = """
import atexit, gc, sys, threading
import numpy as np
from checkpoint import grad
from dualad import jit

gradient = jit(grad(lambda x: np.sum(x**2)))
gradient(np.array([1.0, 2.0]))
F, H, measured = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.sin(np.arange(TURNS))

def misfit(p):
    x, P, loss = np.zeros(2), np.eye(2), 0.0
    for z in measured:
        x, P = F @ x, F @ P @ F.T + p[0] * np.eye(2)
        S = H @ P @ H.T + p[1] * np.eye(1)
        K, r = P @ H.T @ np.linalg.inv(S), z - H @ x
        x, P, loss = x + K @ r, P - K @ H @ P, loss + np.sum(r**2) / S[0, 0] + np.log(S[0, 0])
    return loss

kalman = jit(grad(misfit))
p = np.array([0.1, 0.2])
print(kalman(p).tobytes().hex())

class Last:
    def __del__(self, call=gradient, x=np.array([1.0, 2.0])):
        call(x)

last = Last()
if "collected" in sys.argv:
    atexit.register(gc.collect)
if "called" in sys.argv:
    atexit.register(kalman, p)
if "busy" in sys.argv:
    large = np.ones(1_000_000)
    gradient(large)

    def work():
        while True:
            gradient(large)

    threading.Thread(target=work, daemon=True).start()
"""
#: freed memory is overwritten, so that what is read after it was freed is noticed (by glibc)
OVERWRITTEN = {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "255"}


def ended(folder, *arguments, options=(), environment=None, turns=20):
    """Return what a process wrote that ended with status 0."""
    environment = {"DUALAD_CACHE_DIR": str(folder), **(environment or {})}
    return output_of(PROGRAM.replace("TURNS", f"{turns}.0"), *arguments, options=options, **environment)


@pytest.mark.parametrize("arguments", [("collected",), ("called", "busy")], ids=" ".join)
def test_a_process_that_has_compiled_ends_with_status_0(tmp_path, arguments):
    cold = ended(tmp_path, *arguments, environment=OVERWRITTEN, turns=3)
    assert ended(tmp_path, *arguments, options=["-X", "dev"], turns=3) == cold


@pytest.mark.campaign
@pytest.mark.parametrize("environment", [{}, OVERWRITTEN], ids=["", "overwritten"])
@pytest.mark.parametrize("options", [(), ("-X", "dev")], ids=" ".join)
@pytest.mark.parametrize("arguments", [(), ("collected",), ("called",), ("busy", "collected")], ids=" ".join)
def test_many_processes_end_with_status_0(tmp_path, arguments, options, environment):
    if environment and options:
        pytest.skip("the debug hooks of -X dev overwrite what is freed themselves")
    outs = {ended(tmp_path / name, *arguments, options=options, environment=environment) for name in ("a", "b", "a", "a", "b")}
    assert len(outs) == 1
