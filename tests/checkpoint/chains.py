"""Chains that many tests differentiate: a wave with a mixed state, and one that is driven by rows and puts out rows."""

import numpy as np

from checkpoint import CTZ, Revolve, StoreAll, chain
from checkpoint.schedules import Mixed

SCHEDULES = [CTZ(), CTZ("bisect"), Revolve(1), Revolve(3), Revolve(50), StoreAll(), Mixed(1), Mixed(4)]


def halve(k, x):
    return x / 3 + 2


def wave(k, state, speed):
    """A mixed state: arrays, a number, an integer, None and a text."""
    field, energy, label = state["field"], state["energy"], state["label"]
    field = field + speed * (np.roll(field, 1) - 2 * field + np.roll(field, -1)) * np.cos(energy)
    return {"field": field, "energy": energy + 0.1 * np.sum(field**2) * (1 + k), "label": label, "none": None, "count": state["count"]}


FLOATS = {"field": np.array([1.0, -0.5, 0.25, 2.0]), "energy": 0.3}


def wave_loss(floats, speed, steps=13, **options):
    """Differentiate by the floats; the other leaves join here."""
    final = chain(wave, {**floats, "label": "wave", "none": None, "count": 7}, speed, steps=steps, **options)
    assert final["label"] == "wave" and final["none"] is None and final["count"] == 7
    return np.sum(np.sin(final["field"])) * final["energy"]


def driven(k, state, row, c):
    x, v = state
    force, gain = row["force"], row["gain"]
    v = v + 0.1 * (np.sin(x) * c + force * gain)
    return (x + 0.1 * v, v), {"x2": x * x, "norm": np.sum(v**2), "k": k}


def by_hand(state, rows, c):
    outs = []
    for k in range(len(rows["force"])):
        state, out = driven(k, state, {name: rows[name][k] for name in rows}, c)
        outs.append(out)
    return state, {name: np.stack([out[name] for out in outs]) for name in outs[0]}


STATE = (np.array([0.3, -0.2]), np.array([0.0, 1.0]))
ROWS = {"force": np.arange(14.0).reshape(7, 2) / 10, "gain": np.linspace(1.0, 2.0, 7)}


def trajectory_loss(program, state, rows, c, **options):
    final, outs = program(state, rows, c, **options)
    return np.sum(final[0]) * np.sum(np.cos(outs["x2"])) + np.sum(outs["norm"] * np.arange(7.0)) + np.sum(outs["k"])


def with_chain(state, rows, c, **options):
    return chain(driven, state, c, inputs=rows, outputs=True, **options)
