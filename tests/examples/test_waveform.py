"""The example: the gradient of a survey's misfit against differences, what it finds, and its picture."""

import sys

import numpy as np
import pytest
from loaded import load

pytest.importorskip("scipy.optimize")
example = load("examples/waveform.py")


@pytest.fixture
def survey(monkeypatch):
    monkeypatch.setattr(example, "step", example.step.f)  # compiling takes longer than so few steps
    return example.Survey(10, shots=2, receivers=5)


def test_the_gradient_is_that_of_the_misfit(survey):
    truth = example.SPEED * (1.0 + survey.hidden())
    measured = [survey.records(truth, source) for source in survey.sources]
    rng = np.random.default_rng(0)
    change, direction = 0.1 * rng.normal(size=(2, 10, 10))
    value, slope = example.value_and_grad(survey.misfit)(change, measured)
    assert value == survey.misfit(change, measured) > 0.0 == survey.misfit(survey.hidden(), measured)
    higher, lower = (survey.misfit(change + s * 1e-6 * direction, measured) for s in (1, -1))
    assert np.sum(slope * direction) == pytest.approx((higher - lower) / 2e-6, rel=1e-6)
    assert not np.any(slope[survey.inside == 0.0])


def test_the_misfit_falls(survey):
    found, misfits = example.invert(survey, 4)
    assert misfits[-1] < 0.2 * misfits[0] and np.sum(found * survey.hidden()) > 0.0


@pytest.mark.long
def test_it_finds_what_is_hidden_and_draws_it(capsys, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "waveform.png"
    monkeypatch.setattr(sys, "argv", ["waveform.py", "--cells", "16", "--iterations", "6", "--plot", str(picture)])
    example.main()
    assert float(capsys.readouterr().out.split()[-1]) > 0.98 and picture.stat().st_size > 10_000
