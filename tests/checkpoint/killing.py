"""Processes that SIGKILL ends at a chosen call: for the tests of what a sweep leaves on disk."""

import importlib
import json
import os
import random
import runpy
import signal
import subprocess
import sys
from contextlib import contextmanager
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


def kill_again_and_again(tmp_path, folder, script, length, *, module, kills, latest, expected):
    """Run a script, killed at a random call up to the `latest` (about its last), until so many were killed; then let it come through.

    One that comes through before prints what is `expected` and leaves no folder; the next one begins anew. The script imports the test
    `module`; its arguments are the number of the call, the folder and `length`. Both sweeps must have been hit.
    """
    path = tmp_path / "killed.py"
    path.write_text(script)
    with processes(module) as run_script:
        run = lambda moment: run_script(str(path), str(moment), str(folder), length)
        chance, killed, phases = random.Random(length), 0, set()
        while killed < kills:
            code, said = run(chance.randrange(1, latest))
            if code == 0:
                assert said.strip() == expected and not folder.exists()
            else:
                assert code == -signal.SIGKILL, said
                killed += 1
                phases.add(bool(list(folder.glob("*.final"))))
        assert phases == {False, True}, "both sweeps were hit"
        assert run(0)[1].strip() == expected


def damaged(folder, chance):
    """Damage one file of a folder, or of a folder in it, at random; returns what was done, None where there is no file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    if not files:
        return None
    path = chance.choice(files)
    data, how = path.read_bytes(), chance.choice(["flipped", "cut", "lost", "zeros", "doubled"])
    if how == "lost" or not data:
        path.unlink()
    else:
        at = chance.randrange(len(data))
        flipped = bytes([data[at] ^ (1 << chance.randrange(8))])
        zeros = bytes(min(64, len(data) - at))
        kinds = {"flipped": data[:at] + flipped + data[at + 1 :], "cut": data[:at], "zeros": data[:at] + zeros + data[at + len(zeros) :]}
        path.write_bytes(kinds.get(how, data + data[at:]))
    return f"{how}: {path.relative_to(folder)}"


@contextmanager
def processes(module):
    """Give a function that runs a script with arguments in a process of its own and returns its exit code and all that it printed.

    They are forked from one process that has imported `module`, which takes longer than most of the scripts.
    """
    here = Path(__file__).parent
    folders = here, here / "durable", here / "loops", here.parent / "dualad" / "codegen", here.parents[1]
    paths = map(str, folders)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, __file__, module]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:

        def run(*words):
            print(json.dumps(words), file=parent.stdin, flush=True)
            return json.loads(parent.stdout.readline())

        yield run
        parent.stdin.close()
    assert parent.returncode == 0


def fork_for_each_line(module):
    importlib.import_module(module)
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            sys.argv = json.loads(line)
            runpy.run_path(sys.argv[0], run_name="__main__")
            return
        os.close(writing)
        with open(reading) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps((os.waitstatus_to_exitcode(status), said)), flush=True)


if __name__ == "__main__":
    fork_for_each_line(sys.argv[1])
