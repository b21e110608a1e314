"""Teach an LSTM to remember: its first input, +1 or -1, must still be known after 60 steps of noise.

    python examples/lstm.py [--plot lstm.png] [--updates 25]

A long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers, Schmidhuber & Cummins 2000). `chain` saves some
of the 60 states and computes the others again; `flatten` makes one vector of the parameters, for SciPy's `minimize`.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from shared import options, picture

from checkpoint import chain, value_and_grad
from dualad import flatten

RNG, WIDTH, MANY = np.random.default_rng(0), 12, 64
BIASES = np.repeat([3.0, 0.0], [WIDTH, 3 * WIDTH])  # the cells forget little at first
START = {"gates": 0.3 * RNG.standard_normal((1 + WIDTH, 4 * WIDTH)), "biases": BIASES, "reading": 0.1 * RNG.standard_normal(WIDTH)}
FIRST = RNG.choice([-1.0, 1.0], (2, MANY))  # to be remembered: of sequences to learn from, and of new ones
LEARNT, NEW = np.concatenate([FIRST[:, None], 0.2 * RNG.standard_normal((2, 59, MANY))], axis=1)[..., None]


def step(k, state, x, parameters):
    """Return the next hidden state and cells, and what would be read of them."""
    hidden, cells = state
    gates = np.concatenate([x, hidden], axis=1) @ parameters["gates"] + parameters["biases"]
    keep, write, show, new = np.split(gates, 4, axis=1)
    cells = expit(keep) * cells + expit(write) * np.tanh(new)
    hidden = expit(show) * np.tanh(cells)
    return (hidden, cells), hidden @ parameters["reading"]


def readings(parameters, inputs):
    """Return what is read of each sequence after each step, positive for a guess of +1."""
    rest = np.zeros((inputs.shape[1], WIDTH))
    return chain(step, (rest, rest), parameters, inputs=inputs, outputs=True)[1]


def surprise(parameters, inputs, first):
    """Return the mean surprise at the first inputs after the last step."""
    return np.mean(np.logaddexp(0.0, -2.0 * first * readings(parameters, inputs)[-1]))


def main():
    words, (x, unflatten) = options(__doc__, updates=(25, "how often the parameters change")), flatten(START)
    loss, course = value_and_grad(lambda x: surprise(unflatten(x), LEARNT, FIRST[0])), []
    found = minimize(loss, x, jac=True, method="L-BFGS-B", options={"maxiter": words.updates}, callback=lambda x: course.append(loss(x)[0]))
    new = readings(unflatten(found.x), NEW)
    print(f"{found.nit} updates: mean surprise {found.fun:.5f}, {np.mean(np.sign(new[-1]) == FIRST[1]):.0%} of new sequences are right")
    with picture(words.plot, columns=2, size=(9, 3.4)) as (left, right):
        left.semilogy(course)
        left.set(xlabel="update", ylabel="mean surprise")
        right.plot(new[:, FIRST[1] > 0.0], "C0", lw=0.8)
        right.plot(new[:, FIRST[1] < 0.0], "C1", lw=0.8)
        right.set(xlabel="step", ylabel="reading (blue: first input +1)")


if __name__ == "__main__":
    main()
