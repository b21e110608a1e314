"""Teach an LSTM to remember: its first input, +1 or -1, must still be known after 60 steps of noise.

    python examples/lstm.py [--plot lstm.png] [--updates 200]

A long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers, Schmidhuber & Cummins 2000), written in NumPy, with
SciPy's sigmoid. `chain` goes through the sequence: of the 60 states some are saved, and those between are computed again. The updates
are those of Adam (Kingma & Ba 2015).
"""

import argparse

import numpy as np
from scipy.special import expit

from checkpoint import chain, value_and_grad
from dualad import flatten

WIDTH, STEPS, MANY = 12, 60, 32


def sequences(rng):
    """Return the inputs, one row a step, and what is to be remembered of them."""
    inputs = 0.2 * rng.standard_normal((STEPS, MANY, 1))
    inputs[0] = rng.choice([-1.0, 1.0], (MANY, 1))
    return inputs, inputs[0, :, 0]


def start(rng):
    """Return the parameters: small weights, and a bias that lets the cells forget little."""
    biases = np.zeros(4 * WIDTH)
    biases[:WIDTH] = 3.0
    return {"gates": 0.3 * rng.standard_normal((1 + WIDTH, 4 * WIDTH)), "biases": biases, "reading": np.zeros(WIDTH)}


def step(k, state, x, parameters):
    """Return the next hidden state and cells, and the cells to look at."""
    hidden, cells = state
    gates = np.concatenate([x, hidden], axis=1) @ parameters["gates"] + parameters["biases"]
    keep, write, show, new = (gates[:, i * WIDTH : (i + 1) * WIDTH] for i in range(4))
    cells = expit(keep) * cells + expit(write) * np.tanh(new)
    return (expit(show) * np.tanh(cells), cells), cells


def remembered(parameters, inputs):
    """Return what is read at the end of each sequence, positive for a guess of +1, and the cells on the way."""
    rest = np.zeros((inputs.shape[1], WIDTH))
    (hidden, _), cells = chain(step, (rest, rest), parameters, inputs=inputs, outputs=True)
    return hidden @ parameters["reading"], cells


def loss(parameters, inputs, first):
    """Return the mean surprise at the first inputs."""
    return np.mean(np.logaddexp(0.0, -2.0 * first * remembered(parameters, inputs)[0]))


def train(updates, rate=0.02, seed=0):
    """Return the trained parameters, and the losses on the way."""
    rng = np.random.default_rng(seed)
    x, unflatten = flatten(start(rng))
    mean, square, losses = np.zeros_like(x), np.zeros_like(x), []
    for k in range(1, updates + 1):
        value, gradient = value_and_grad(loss, check_finite=True)(unflatten(x), *sequences(rng))
        losses.append(value)
        g, _ = flatten(gradient)
        mean, square = 0.9 * mean + 0.1 * g, 0.99 * square + 0.01 * g * g
        x = x - rate * mean / (1.0 - 0.9**k) / (np.sqrt(square / (1.0 - 0.99**k)) + 1e-8)
    return unflatten(x), losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    parser.add_argument("--updates", type=int, default=200, help="how often the parameters change (default 200)")
    options = parser.parse_args()
    parameters, losses = train(options.updates)
    inputs, first = sequences(np.random.default_rng(99))
    reading, cells = remembered(parameters, inputs)
    share = np.mean(np.sign(reading) == first)
    print(f"mean surprise {losses[0]:.3f} before, {losses[-1]:.3f} after {options.updates} updates; {share:.0%} of new sequences are right")
    if options.plot:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.semilogy(losses)
        left.set(xlabel="update", ylabel="mean surprise")
        read = np.tanh(cells) @ parameters["reading"]
        for sign, color in ((1.0, "C0"), (-1.0, "C1")):
            right.plot(read[:, first == sign], color, lw=0.8)
        right.set(xlabel="step", ylabel="reading, by the first input")
        figure.savefig(options.plot, dpi=90)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
