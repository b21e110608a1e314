"""Every example that draws runs as a script, small, says what it found, and leaves a picture."""

import sys

import pytest
from loaded import example

#: the words after the script's name, what it prints, and what is set before
EXAMPLES = {
    "bratu": ("--cells 12 --points 10", ("turning point near lambda = 6.", "Newton steps"), {"COMPILED": False, "Curve": (False,)}),
    "brusselator": ("--cells 8 --steps 50", ("50 steps", "Jacobians", "at t = 2.5: from 0."), {"Implicit": (False,)}),
    "choose_schedule": (
        "--steps 40 --cells 24 --memory 400kB",
        ("schedule  Revolve(slots=", "the same bits under every schedule: True"),
        {},
    ),
    "colours": ("", ("in x and y   the ellipses are 2.96 times", "in CAM16-UCS the ellipses are 1.94 times"), {}),
    "ensemble": ("--executor here --members 3", ("9 members of 1000 steps",), {}),
    "epidemic": ("", ("infections 1.700 a day", "each ill boy infects 3.80 others at first"), {}),
    "exponential_fit": ("", ("sum of squares 5.464895e-05",), {}),
    "gaussian_process": ("", ("log likelihood 15.2061",), {}),
    "histogram": ("", ("a strength of 1.343 +- 0.696",), {}),
    "invasion": ("--size 8 --end 20", ("64 equations, ", " states of the solver are saved"), {}),
    "kalman": ("--count 12", ("evaluations: pushes of",), {}),
    "lstm": ("--updates 2", ("2 updates: mean surprise 0.",), {}),
    "molecules": ("--steps 10", ("144 particles, 10 steps: ",), {}),
    "minimal_surface": ("--cells 6", 3 * ("The solution converged.",), {}),
    "robertson": ("--cells 4", ("12 unknowns, 7 colours",), {}),
}
#: packages that an example is about
NEEDS = {"colours": "colour", "histogram": "pyhf", "kalman": "filterpy"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs_and_draws(name, capsys, monkeypatch, tmp_path):
    words, told, changes = EXAMPLES[name]
    module, picture = example(name, "matplotlib", NEEDS.get(name, "numpy")), tmp_path / "picture.png"
    for thing, value in changes.items():  # compiling takes longer than so few steps
        if type(value) is tuple:
            monkeypatch.setattr(getattr(module, thing).__init__, "__defaults__", value)
        else:
            monkeypatch.setattr(module, thing, value)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words.split(), "--plot", str(picture)])
    module.main()
    printed = capsys.readouterr().out
    for line in told:
        assert printed.count(line) >= told.count(line)
    assert picture.stat().st_size > 10_000
