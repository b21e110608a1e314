"""Fit: random kills, random damage, and functions that change meanwhile: the result is right, or refused by a message."""

import random
import shutil
import signal
import sys
from contextvars import ContextVar

import numpy as np
import pytest
from killing import damaged, processes
from scipy.optimize import minimize

from checkpoint import Fit, chain, value_and_grad  # noqa: F401  (the script takes Fit from here, imported once)

pytestmark = pytest.mark.slow

STEPS = 12
CALLED = [lambda: None]
TICK = ContextVar("what comes before each step", default=CALLED)  # which is not looked into


def fitted(rate, fit=None):
    """Fit two numbers; the step reads `rate`, a table that a helper changes nothing of, and counts its calls."""
    table, log = np.linspace(0.5, 1.5, 3), []

    def step(k, u, p):
        TICK.get()[0]()
        return u + 0.1 * (p[0] * table * np.sin(u) - rate * p[1] * u)

    def misfit(p):
        log.append(1)
        return np.sum((chain(step, np.ones(3), p, steps=STEPS, storage=fit) - 0.7) ** 2)

    f = value_and_grad(misfit)
    result = minimize(f if fit is None else fit(f, name="f"), np.array([0.8, 0.1]), jac=True, method="L-BFGS-B", options={"maxiter": 6})
    return f"{result.x.tobytes().hex()} {float(result.fun).hex()} {result.nfev}"


RATES = (1.0, 1.25)
EXPECTED = {rate: fitted(rate) for rate in RATES}

SCRIPT = """
import sys, warnings
from checkpoint.durable import fit_folder
from checkpoint.durable import session as room
from checkpoint.durable import log
from checkpoint.storage import background, codec, files
from killing import counted
import test_fit_campaign as campaign

warnings.simplefilter("ignore")
moment, path, rate, every = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
files.os.fsync = lambda file: None  # it only takes time
places = [(files.os, "replace"), (files.os, "rename"), (log, "encode_leaves")]
places += [(module, "encode_records") for module in (codec, background, log)]
places += [(room, "remove_files"), (fit_folder.shutil, "rmtree"), (room, "write_file"), (log, "open_to_append")]
before = counted(moment, *places)
if moment % 3 == 0:  # in the middle of a write
    whole = log.ResultFile.append
    def append(self, key, leaves):
        self.file.seek(self.end)
        self.file.write(b"".join(codec.encode_leaves(0, leaves, key))[: moment % 400])
        step()
        return whole(self, key, leaves)
    step = before(lambda: None)
    log.ResultFile.append = append
campaign.CALLED[0] = before(lambda: None)
fit = campaign.Fit(path, every=every)
print(campaign.fitted(rate, fit), fit.answered, fit.made)
"""
LENGTH = 1200  # calls of a whole run, about


@pytest.fixture
def run(tmp_path):
    """Run the script on a folder in a process of its own: its exit code, and what it printed."""
    path = tmp_path / "killed.py"
    path.write_text(SCRIPT)
    with processes(__name__) as run_script:
        yield lambda moment, folder, rate, every: run_script(str(path), str(moment), str(folder), str(rate), str(every))


def counts(small, campaign):
    return [small, pytest.param(campaign, marks=pytest.mark.campaign)]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("kills", counts(3, 200))
def test_kills(tmp_path, run, kills):
    """At random calls, until the fit comes through; then in a new folder. What was answered grows."""
    chance, killed, rounds = random.Random(kills), 0, 0
    while killed < kills:
        folder, every = tmp_path / f"fit{rounds}", chance.choice([0.0, 1e-4, 1.0])
        rounds += 1
        while killed < kills:
            code, said = run(chance.randrange(1, LENGTH // 4), folder, 1.0, every)
            if code == 0:
                break
            assert code == -signal.SIGKILL, said
            killed += 1
        code, said = run(0, folder, 1.0, every)
        assert code == 0, said
        *result, answered, made = said.split()
        assert " ".join(result) == EXPECTED[1.0] and int(answered) + int(made) == int(result[-1])
        code, said = run(0, folder, 1.0, every)
        assert code == 0 and said.split()[-2:] == [result[-1], "0"], "all of it is there now"
        assert len(list(folder.glob("*.evaluation"))) <= 2 and not list(folder.glob("*.removed")) and not list(folder.glob("*.tmp"))
    assert rounds > kills // 50


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("number", counts(3, 100))
def test_damaged_folders(tmp_path, run, number):
    """Of killed or whole fits, and the function may be another one by then: never a wrong result, never one of the function before."""
    chance, refused, answered, seen = random.Random(number), 0, 0, set()
    for each in range(number):
        folder, every = tmp_path / f"fit{each}", chance.choice([0.0, 1e-4])
        code, said = run(chance.choice([0, chance.randrange(1, LENGTH)]), folder, 1.0, every)
        assert code in (0, -signal.SIGKILL), said
        for _ in range(chance.randrange(1, 4)):
            how = damaged(folder, chance)
            seen.add(how and how.split()[0])
        rate = chance.choice(RATES)
        code, said = run(0, folder, rate, every)
        if code:  # by a message that says what to do
            refused += 1
            assert any(text in said for text in ("differs in", "begin anew", "another folder")), said
            shutil.rmtree(folder)
            continue
        *result, count, _ = said.split()
        assert " ".join(result) == EXPECTED[rate], (each, how)
        assert rate == 1.0 or count == "0", "an old result"
        answered += int(count) > 0
    print(f"{number} damaged: {refused} refused, {answered} answered in part", file=sys.stderr)
    assert number < 100 or (answered > 20 and len(seen) > 4)
