"""A sweep gives the same bits whatever its schedule, its storage, its length (known or not), and however its step hands on arrays."""

from itertools import product

import numpy as np
import pytest
from step_kinds import GRID, STEPS, fortran, mix_pull, spoiling_pull

from checkpoint.schedules import CTZ, Mixed, Online, Periodic, Revolve, StoreAll, Tiered
from checkpoint.storage import Disk, Memory, Tiers
from checkpoint.sweep import Result, reverse

SCHEDULES = [StoreAll(), CTZ(), CTZ("bisect"), Revolve(1), Revolve(3), Revolve(100), Periodic(), Periodic(3), Online(3)]
SCHEDULES += [Mixed(1), Mixed(4), Tiered(1, 0), Tiered(2, 2)]
ENDLESS = [StoreAll(), CTZ(), CTZ("bisect"), Periodic(4), Online(3)]
STORAGES = {
    "memory": lambda folder: Memory(),
    "zlib": lambda folder: Memory(compress="zlib"),
    "disk": Disk,
    "tiers": lambda folder: Tiers(Memory(), Disk(folder), {0, 2}),
    "resumed": lambda folder: Disk(folder, resume=True),
}
TABLE = [*product(SCHEDULES, (1, 2, 23), ["known"]), *product(ENDLESS, (1, 23), ["until"])]


def up_to(steps, known):
    """The two ways to say how long a chain is."""

    def until(k, x):
        assert x.flags.carray
        return k == steps

    return {"steps": steps} if known == "known" else {"until": until}


def recorder(step):
    """Return a step that also gives its pullback."""

    def record(k, x):
        assert x.flags.carray
        given = x.copy()
        return step(k, x), lambda g: mix_pull(k, given, g)

    return record


def checked(step):
    """Return a step or a pull that is handed states in the canonical layout."""

    def call(k, x, *g):
        assert x.flags.carray and x.flags.writeable
        return step(k, x, *g)

    return call


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", STEPS)
def test_every_schedule_storage_and_length(storage, kind, tmp_path):
    x0, seed, plain = np.asfortranarray(GRID), np.cos(GRID), {}
    for schedule, steps, known in TABLE if storage == "memory" else TABLE[:: 1 + 2 * (kind != "plain")]:
        if storage == "resumed" and isinstance(schedule, Mixed | Tiered):  # refused: states in memory do not outlive the process
            continue
        step = checked(STEPS[kind]())
        record = recorder(step)
        options = {**up_to(steps, known), "schedule": schedule, "storage": STORAGES[storage](tmp_path), "record": record}
        result = reverse(step, checked(spoiling_pull), x0, seed, **options)
        if steps not in plain:
            plain[steps] = reverse(STEPS[kind](), mix_pull, x0, seed, steps=steps, schedule=StoreAll())
        same = [one.tobytes() for one in plain[steps][:2]] == [one.tobytes() for one in result[:2]]
        assert type(result) is Result and same, options
    assert np.array_equal(x0, GRID) and np.array_equal(seed, np.cos(GRID)), "what the caller gave is not touched"


@pytest.mark.parametrize(("schedule", "known"), [*product(SCHEDULES, ["known"]), *product(ENDLESS, ["until"])], ids=str)
def test_a_number_that_becomes_an_array(schedule, known):
    def step(k, x):
        return fortran(k, x if k else GRID * x)

    def pull(k, x, g):
        return mix_pull(k, x, g) if k else np.sum(GRID * mix_pull(k, GRID * x, g))

    length = {"steps": 9} if known == "known" else {"until": lambda k, x: k == 9}
    record = lambda k, x: (step(k, x), lambda g: pull(k, x, g))
    results = [reverse(step, pull, 0.7, GRID, steps=9), reverse(step, pull, 0.7, GRID, schedule=schedule, record=record, **length)]
    assert results[0].cotangent == results[1].cotangent and results[0].final.tobytes() == results[1].final.tobytes()
