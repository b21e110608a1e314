"""The command line."""

import os
import subprocess
import sys

import pytest

from checkpoint import __version__
from checkpoint.__main__ import main, parse_count
from checkpoint.report.compare import compare
from checkpoint.report.draw import draw
from checkpoint.schedules import CTZ, Online, Periodic, Revolve
from checkpoint.sweep.plan import plan


@pytest.fixture(autouse=True)
def no_columns(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # whoever runs the tests may have set it


@pytest.mark.slow
def test_plots(capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    for command in ("compare --steps 1e3 --state 8MB --memory 2GB", "draw --schedule revolve:3 --steps 10"):
        picture = tmp_path / f"{command[:4]}.png"
        assert main([*command.split(), "--plot", str(picture)]) == 0
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert capsys.readouterr().out
    assert main(["draw", "--steps", "10", "--plot", str(tmp_path / "no" / "folder.png")]) == 2
    assert main(["draw", "--steps", "10", "--plot", str(tmp_path / "picture.nope")]) == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("draw --steps 1.5", "argument --steps: '1.5' is not a whole number; write"),
        ("draw --steps 16 --schedule nope", "argument --schedule: no schedule is written 'nope'"),
        ("draw --steps 16 --schedule revolve:0", "argument --schedule: Revolve: slots must be at least 1"),
        ("compare --steps 10 --state 8 --schedules ctz,nope", "argument --schedules: no schedule is written 'nope'"),
        ("compare --steps 10 --state 8XB", "argument --state: cannot read '8XB'"),
        ("compare --steps 10 --state 8 --memory 1e400", "argument --memory: '1e400' is not a finite number"),
    ],
)
def test_an_option_that_cannot_be_read_is_named(words, reason, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    assert stop.value.code == 2 and reason in capsys.readouterr().err


@pytest.mark.slow
def test_a_picture_that_cannot_be_written_is_known_before_the_work(capsys, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.setattr("checkpoint.__main__.compare", lambda **options: pytest.fail("worked"))
    for name, reason in (("a", "must end in its format"), ("a.foo", "one of"), ("no/a.png", "there is no folder")):
        assert main(["compare", "--steps", "10", "--state", "8", "--plot", str(tmp_path / name)]) == 2
        assert reason in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["compare", "--steps", "10", "--state", "8", "--plot", str(tmp_path / "a.png")]) == 2
    assert "needs matplotlib; install it with: pip install 'dualad[plot]'" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["dualad", "checkpoint"])
def test_version(package):
    done = subprocess.run([sys.executable, "-m", package, "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == f"dualad {__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", ["-m dualad coverage", "-m checkpoint compare --steps 10 --state 8", "-m checkpoint draw --steps 100"])
def test_a_reader_that_has_enough_is_no_error(words):
    read, write = os.pipe()
    os.close(read)
    environment = dict(os.environ)  # readline, which pytest imports, sets COLUMNS behind it
    done = subprocess.run([sys.executable, *words.split()], stdout=write, stderr=subprocess.PIPE, env=environment)
    os.close(write)
    assert done.returncode == 0 and done.stderr == b""


def test_tables_and_pictures_fit_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["compare", "--steps", "1000", "--state", "8MB"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60 and sum(line.startswith("CTZ") for line in lines) == 2
    assert main(["draw", "--steps", "30"]) == 2
    assert "the picture needs 72 columns, the terminal has 60; give fewer steps, or --plot FILE" in capsys.readouterr().err
    assert main(["draw", "--steps", "20"]) == 0 and capsys.readouterr().out
    assert main(["plan", "--steps", "1e6", "--state", "8MB", "--memory", "2GB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and max(map(len, lines)) <= 60 and lines[-1].startswith(" " * 10), "the reason is wrapped"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("draw --steps 16 --schedule ctz:bisect", lambda: draw(CTZ("bisect"), 16)),
        (
            "compare --steps 1e3 --state 8MB --schedules ctz,revolve:20,online:20,periodic",
            lambda: compare(steps=1000, state_bytes="8MB", schedules=[CTZ(), Revolve(20), Online(20), Periodic()]),
        ),
        ("compare --steps 50 --state 8 --markdown", lambda: compare(steps=50, state_bytes=8).to_markdown()),
        (
            "compare --steps 50 --state 8 --pull-cost 3 --record-cost 7 --schedules ctz",
            lambda: compare(steps=50, state_bytes=8, schedules=[CTZ()], pull_cost=3, record_cost=7),
        ),
        ("plan --steps 1e6 --state 8MB --memory 2GB", lambda: planned(plan(10**6, "8MB", "2GB"))),
        ("plan --state 8MB --memory 2GB", lambda: planned(plan(None, "8MB", "2GB"))),
        (
            "plan --steps 1e5 --state 8MB --memory 2GB --step-seconds 0.1 --save-seconds 0.01",
            lambda: planned(plan(10**5, "8MB", "2GB", step_seconds=0.1, save_seconds=0.01)),
        ),
    ],
)
def test_what_is_printed(words, expected, capsys):
    assert main(words.split()) == 0
    assert capsys.readouterr().out == f"{expected()}\n"


def planned(chosen):
    return f"schedule  {chosen.schedule}\nstorage   {chosen.storage}\nreason    {chosen.reason}"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("draw --steps 1e3", "at most 120"),
        ("compare --steps 0 --state 8", "at least 1"),
        ("compare --steps 100 --state 8MB --memory 9MB", "too small"),
        ("plan --steps 100 --state 8MB --memory 9MB", "too small"),
    ],
)
def test_errors_go_to_stderr(words, reason, capsys):
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and reason in err and "Traceback" not in err


@pytest.mark.parametrize("words", ["", "fly", "draw", "compare --steps 3", "--help", "draw --help", "compare --help"])
def test_usage(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    out, err = capsys.readouterr()
    assert stop.value.code == (0 if "help" in words else 2)
    assert "--" in out if "help" in words else "usage: python -m checkpoint" in err


def test_profile(capsys, tmp_path, monkeypatch):
    (tmp_path / "pendulum_of_a_test.py").write_text(
        "import numpy as np\n"
        "def step(k, state, rate):\n"
        "    angle, speed = state\n"
        "    return angle + 0.01 * speed, speed - 0.01 * rate * np.sin(angle)\n"
        "state = (0.5, 0.0)\n"
    )
    monkeypatch.chdir(tmp_path)
    words = "profile pendulum_of_a_test:step pendulum_of_a_test:state 9.81 --steps 50 --schedules ctz,revolve:3"
    assert main(words.split()) == 0
    out = capsys.readouterr().out
    assert "one simulation takes" in out and "reverse sweep" in out and "Revolve(slots=3)" in out
    assert main([*words.split(), "--markdown"]) == 0 and capsys.readouterr().out.startswith("|")
    assert main([*words.split()[:2], "[[1.0,2.0],0.0]", "9.81", "--steps", "3"]) == 2
    error = capsys.readouterr().err
    assert "chain: in step 0" in error and f"in step, {tmp_path / 'pendulum_of_a_test.py'}, line 4" in error
    with pytest.raises(SystemExit):
        main(["profile", "pendulum_of_a_test:step", "--steps", "3"])
    error = capsys.readouterr().err
    assert "arguments are required: STATE" in error and " STEP STATE [PARAM ...]\n" in error
    for word, reason in (
        ("pendulum_of_a_test:nothing", "has no attribute"),
        ("no_such_module:step", "No module named"),
        ("1 +", "neither"),
    ):
        with pytest.raises(SystemExit):
            main(["profile", word, "1.0", "--steps", "3"])
        assert reason in capsys.readouterr().err


@pytest.mark.parametrize(("text", "count"), [("16", 16), ("1e6", 10**6), ("1_000", 1000), ("2.5e3", 2500), ("-5", -5)])
def test_parse_count(text, count):
    assert parse_count(text) == count
    for bad in ("1.5", "nan", "inf", "x", ""):
        with pytest.raises(ValueError, match="not a whole number"):
            parse_count(bad)
