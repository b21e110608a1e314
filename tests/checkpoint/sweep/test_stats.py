"""Stats prints as one line."""

from checkpoint.sweep.stats import Stats


def test_text():
    stats = Stats(steps=10, advances=16, pulls=10, saves=6, loads=9, peak_states=3, peak_bytes=24_000)
    assert str(stats) == ("10 steps: 16 advances (1.6 a step), 10 pulls; 6 saves, 9 loads, at most 3 states (24 kB) saved; 0 s")
    assert str(Stats(schedule="Revolve(slots=3)", reason="fits 2 GB")).endswith("Revolve(slots=3): fits 2 GB")
    assert str(Stats()).startswith("0 steps: 0 advances, 0 pulls")
