"""Choose a schedule for a step of one's own: count, plan, measure, and compare the gradients.

    python examples/choose_schedule.py [--steps 300] [--cells 128] [--memory "12 MB"] [--plot choose_schedule.png]

The step is one of a wave on a square, damped by a map c(x, y); the derivative is that by the map, as in finding what absorbs a sound. What
a schedule costs is counted on integers before anything runs (`compare`), the best one for a budget is chosen (`plan`), each of them runs
with the real step (`profile`), and at last `chain` gets the same budget as `memory=`, from which it takes what its steps need themselves.
Under every schedule the gradient has the same bits.
"""

from __future__ import annotations

import argparse

import numpy as np

from checkpoint import CTZ, Mixed, Periodic, Stats, StoreAll, chain, compare, grad, plan, profile

DT = 0.4


def step(k, state, damping):
    """Return height and speed one step of time later; the edges of the square are joined."""
    height, speed = state
    around = np.roll(height, 1, 0) + np.roll(height, -1, 0) + np.roll(height, 1, 1) + np.roll(height, -1, 1)
    speed = (1.0 - DT * damping) * speed + DT * (around - 4.0 * height)
    return height + DT * speed, speed


def start(cells):
    """Return the first state, a bump at rest, and the map of damping."""
    x = np.linspace(-1.0, 1.0, cells)
    bump = np.exp(-40.0 * (x[:, None] ** 2 + x**2))
    return (bump, np.zeros_like(bump)), np.full_like(bump, 0.01)


def energy(damping, state, steps, **options):
    """Return the kinetic energy at the end."""
    _, speed = chain(step, state, damping, steps=steps, **options)
    return np.sum(speed**2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--cells", type=int, default=128, help="in each direction (default: 128)")
    parser.add_argument("--memory", default="12 MB", help="the budget (default: 12 MB)")
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()
    state, damping = start(options.cells)

    chosen = plan(options.steps, state, options.memory)
    print(chosen)
    schedules = [StoreAll(), CTZ(), chosen.schedule, Periodic(), Mixed(20)]
    print("\ncounted:", compare(steps=options.steps, state_bytes=state, schedules=schedules))
    table = profile(step, state, damping, steps=options.steps, schedules=schedules)
    print("\nmeasured:", table)

    stats = Stats()
    by_budget = grad(energy)(damping, state, options.steps, memory=options.memory, stats=stats)
    print(f"\nmemory={options.memory!r}: {stats}")
    same = all(np.array_equal(grad(energy)(damping, state, options.steps, schedule=schedule), by_budget) for schedule in schedules)
    print(f"the same bits under every schedule: {same}")
    if options.plot:
        table.plot(options.plot)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
