"""A long chain of Python floats: Lorenz-63 by Runge-Kutta steps, and what a step costs the driver at all."""

from __future__ import annotations

import sys

from .functions import runge_kutta
from .harness import Case, Memory, Peer, Table, main

GRADIENT = Table("Gradient of |x_N|^2 by the initial state and the three parameters", unit="s", by_peer=True, rtol=1e-8)
DRIVER = Table("Trivial steps x -> c x on one float, a hand-written pull", unit="s", by_peer=True)
TABLES = [GRADIENT, DRIVER]

START, PARAMETERS, H = (1.0, 1.0, 1.0), (10.0, 28.0, 8.0 / 3.0), 0.001  # short steps: the gradient grows with e^(0.9 N h)
FACTOR = 1.000001
step = runge_kutta(H)


# --- the simulation ---------------------------------------------------------------------------------------------------------


def squares(state):
    x, y, z = state
    return x * x + y * y + z * z


def simulate(steps):
    """Return the simulation as a plain loop, a function of six numbers."""

    def simulated(x, y, z, sigma, rho, beta):
        state = x, y, z
        for k in range(steps):
            state = step(k, state, sigma, rho, beta)
        return squares(state)

    return simulated


def loop(steps):
    x = 1.0
    for k in range(steps):
        x = grow(k, x)
    return x


def grow(k, x):
    return x * FACTOR


def shrink(k, x, g):
    return g * FACTOR


def length(quick):
    return 100 if quick else 10_000


def length_driver(quick):
    return 1000 if quick else 1_000_000


def of(steps):
    return f"N = {steps}"


def primals(quick):
    steps = length(quick)
    yield GRADIENT.title, of(steps), Case(simulate(steps), (*START, *PARAMETERS))
    steps = length_driver(quick)
    yield DRIVER.title, of(steps), Case(loop, (steps,))


# --- peers ------------------------------------------------------------------------------------------------------------------


def complex_step(quick):
    """No differentiation at all: six runs on complex numbers, exact to the last digits."""

    def gradient(*numbers):
        shifted = [[number + 1e-30j * (i == j) for j, number in enumerate(numbers)] for i in range(len(numbers))]
        return [run(*point).imag / 1e-30 for point in shifted]

    steps = length(quick)
    run = simulate(steps)
    measured = Memory(gradient)
    yield GRADIENT.title, of(steps), Case(measured, (*START, *PARAMETERS), columns=lambda seconds, primal: {"peak memory": str(measured)})


def closed_form(quick):
    steps = length_driver(quick)
    yield DRIVER.title, of(steps), Case(lambda: FACTOR**steps)


def checkpointed(schedule):
    """Return the builder for one schedule, in the notation of the command line."""

    def build(quick):
        from checkpoint import Stats, chain, grad, sweep
        from checkpoint.schedules.parse import parse

        def simulate(*numbers, steps, stats=None):
            return squares(chain(step, numbers[:3], *numbers[3:], steps=steps, schedule=parse(schedule), stats=stats))

        def gradient(*numbers):
            return grad(simulate, argnums=tuple(range(6)))(*numbers, steps=steps, stats=stats)

        def columns(seconds, primal):
            return {
                "saved states": f"{stats.peak_states} ({stats.peak_bytes} B)",
                "steps run again": f"{(stats.advances - steps) / steps:.2f} N",
                "peak memory": str(measured),
            }

        steps, stats = length(quick), Stats()
        grad(simulate)(*START, *PARAMETERS, steps=3)
        measured = Memory(gradient)
        yield GRADIENT.title, of(steps), Case(measured, (*START, *PARAMETERS), columns=columns)

        many, counts = length_driver(quick), Stats()

        def sweep_back():
            return sweep.reverse(grow, shrink, 1.0, 1.0, steps=many, schedule=parse(schedule), stats=counts).cotangent

        def columns_driver(seconds, primal):
            own = (counts.advances + counts.pulls) * primal / many
            return {
                "us a step": f"{seconds / many * 1e6:.2f}",
                "without the calls": f"{(seconds - own) / many * 1e6:.2f}",
                "saved states": f"{counts.peak_states} ({counts.peak_bytes} B)",
                "steps run again": f"{(counts.advances - many) / many:.2f} N",
                "peak memory": str(driver),
            }

        driver = Memory(sweep_back)
        yield DRIVER.title, of(many), Case(driver, columns=columns_driver)

    return build


def eager(quick):
    """The same program without a chain: everything is recorded."""
    from checkpoint import grad

    yield recorded(lambda steps: grad(simulate(steps), argnums=tuple(range(6))), quick)


def autograd(quick):
    from autograd import grad

    yield recorded(lambda steps: grad(simulate(steps), argnum=tuple(range(6))), quick)


def torch(quick):
    import torch

    torch.set_num_threads(1)

    def gradient(steps):
        def differentiated(*numbers):
            inputs = [torch.tensor(number, dtype=torch.float64, requires_grad=True) for number in numbers]
            return [float(g) for g in torch.autograd.grad(simulate(steps)(*inputs), inputs)]

        return differentiated

    yield recorded(gradient, quick)


def recorded(gradient, quick):
    """Return the case of a tool that records the whole loop; that of few steps is called first, so that imports are not counted."""
    gradient(3)(*START, *PARAMETERS)
    measured, steps = Memory(gradient(length(quick))), length(quick)
    columns = lambda seconds, primal: {"saved states": "all", "peak memory": str(measured)}
    return GRADIENT.title, of(steps), Case(measured, (*START, *PARAMETERS), columns=columns)


PEERS = {
    "complex steps": Peer(complex_step),
    "closed form": Peer(closed_form),
    "CTZ": Peer(checkpointed("ctz"), ours=True),
    "CTZ bisect": Peer(checkpointed("ctz:bisect"), ours=True),
    "Revolve(20)": Peer(checkpointed("revolve:20"), ours=True),
    "StoreAll": Peer(checkpointed("store_all"), ours=True),
    "no chain": Peer(eager, ours=True),
    "autograd": Peer(autograd, "autograd"),
    "torch": Peer(torch, "torch"),
}

if __name__ == "__main__":
    sys.exit(main("lorenz", TABLES, primals, PEERS))
