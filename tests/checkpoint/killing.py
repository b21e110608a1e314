"""Processes that SIGKILL ends at a chosen call: for the tests of what a sweep leaves on disk."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path


def counted(moment, *places):
    """Have call number `moment` (from 1; 0: none) of certain functions end this process.

    `places` are pairs (module, name) of functions, which are replaced. Returns what does the same to any function.
    """
    left = moment

    def before(function):
        def call(*arguments, **options):
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for module, name in places:
        setattr(module, name, before(getattr(module, name)))
    return before


def kill_again_and_again(tmp_path, folder, script, length, *, kills, latest, expected):
    """Run a script, killed at a random call up to the `latest`, until so many were killed; then let it come through.

    One that comes through before prints what is `expected` and leaves no folder; the next one begins anew. The script's arguments are
    the number of the call, the folder and `length`. Both sweeps must have been hit.
    """
    path = tmp_path / "killed.py"
    path.write_text(script)
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}

    def run(moment):
        words = [sys.executable, str(path), str(moment), str(folder), length]
        return subprocess.run(words, env=environment, capture_output=True, text=True)

    chance, killed, phases = random.Random(length), 0, set()
    while killed < kills:
        done = run(chance.randrange(1, latest))
        if done.returncode == 0:
            assert done.stdout.strip() == expected and not folder.exists()
        else:
            assert done.returncode == -signal.SIGKILL, done.stderr
            killed += 1
            phases.add(bool(list(folder.glob("*.final"))))
    assert phases == {False, True}, "both sweeps were hit"
    assert run(0).stdout.strip() == expected
