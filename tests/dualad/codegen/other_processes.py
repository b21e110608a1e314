"""Programs in processes of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def output_of(program, *arguments, options=(), folder=None, **environment):
    """Return what a program writes in a process of its own, which ends with status 0 and without a word on standard error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, *options, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def in_a_fork(pull):
    """Return what a pull gives in a forked child: the bytes of its first result, or its error."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            os.write(write, pull()[0].tobytes())
        except RuntimeError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
