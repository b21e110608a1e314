"""The command line."""

import pytest

from checkpoint.__main__ import main
from checkpoint.draw import draw
from checkpoint.schedules import CTZ, Online, Periodic, Revolve
from checkpoint.tradeoff import compare


def test_draw(capsys):
    assert main(["draw", "--steps", "16", "--schedule", "ctz:bisect"]) == 0
    assert capsys.readouterr().out == draw(CTZ("bisect"), 16) + "\n"


def test_compare(capsys):
    assert main(["compare", "--steps", "1e3", "--state", "8MB", "--schedules", "ctz,revolve:20,online:20,periodic"]) == 0
    expected = compare(steps=1000, state_bytes="8MB", schedules=[CTZ(), Revolve(20), Online(20), Periodic()])
    assert capsys.readouterr().out == f"{expected}\n"


def test_compare_in_markdown(capsys):
    assert main(["compare", "--steps", "50", "--state", "8", "--markdown"]) == 0
    assert capsys.readouterr().out == compare(steps=50, state_bytes=8).to_markdown() + "\n"


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
        ("draw --steps 1e3", "at most 120"),
        ("draw --steps 1.5", "not a whole number"),
        ("draw --steps 16 --schedule nope", "no schedule is written 'nope'"),
        ("draw --steps 16 --schedule revolve:0", "Revolve: slots must be at least 1"),
        ("compare --steps 10 --state 8XB", "cannot read '8XB'"),
        ("compare --steps 0 --state 8", "at least 1"),
        ("compare --steps 100 --state 8MB --memory 9MB", "too small"),
    ],
)
def test_errors_go_to_stderr(words, reason, capsys):
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and reason in err and "Traceback" not in err


@pytest.mark.parametrize("words", ["", "fly", "draw", "compare --steps 3"])
def test_usage_errors(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    assert stop.value.code == 2
    assert "usage: python -m checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--help", "draw --help", "compare --help"])
def test_help(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    assert stop.value.code == 0
    assert "--" in capsys.readouterr().out
