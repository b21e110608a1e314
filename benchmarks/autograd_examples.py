"""Losses like those of HIPS autograd's examples, written once: gradients by autograd, by checkpoint, and compiled."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

from .harness import Case, Peer, Table, main

GRADIENT = Table("Gradient", versus=("autograd", "checkpoint"))


def layers(sizes, seed=0):
    """Return weights and biases of a dense network."""
    rng = np.random.default_rng(seed)
    return [(0.3 * rng.standard_normal((m, n)), 0.3 * rng.standard_normal(n)) for m, n in pairwise(sizes)]


def losses(np, special, stats, quick):
    """Return a loss and its parameters for each name, in the namespaces `np`, `special` and `stats`."""
    import numpy

    rng = numpy.random.default_rng(1)
    many = 20 if quick else 200
    inputs, labels = rng.standard_normal((many, 8)), rng.random(many) > 0.5
    targets = numpy.eye(10)[rng.integers(0, 10, many)]
    images = rng.random((many, 64 if quick else 784))
    noise = rng.standard_normal((many, 2))
    points = numpy.linspace(-4.0, 4.0, 10 if quick else 60)[:, None]
    heights = numpy.cos(points[:, 0])
    steps = 5 if quick else 25
    words = numpy.eye(20)[rng.integers(0, 20, (steps, 16))]
    counts = rng.poisson(4.0, many)
    signals = rng.standard_normal((many, 4))
    symbols = rng.integers(0, 6, many)
    side = 8 if quick else 40
    target = numpy.exp(-((numpy.linspace(-3.0, 3.0, side)[:, None] - 0.5) ** 2) - numpy.linspace(-3.0, 3.0, side) ** 2)

    def network(parameters, x, activation=np.tanh):
        for weights, bias in parameters:
            x = activation(outputs := np.dot(x, weights) + bias)
        return outputs

    def logistic_regression(weights):
        chances = 0.5 * (np.tanh(np.dot(inputs, weights)) + 1.0)
        return -np.sum(np.log(chances * labels + (1.0 - chances) * (1.0 - labels)))

    def neural_net(parameters):
        scores = network(parameters, images)
        scores = scores - special.logsumexp(scores, axis=1, keepdims=True)
        return -np.sum(scores * targets) + 0.1 * sum(np.sum(w**2) + np.sum(b**2) for w, b in parameters)

    def neural_net_regression(parameters):
        return -np.sum(stats.norm.logpdf(heights, network(parameters, points)[:, 0], 0.1))

    def gaussian_process(parameters):
        mean, noise_scale, output_scale, length = parameters[0], np.exp(parameters[1]), np.exp(parameters[2]), np.exp(parameters[3])
        apart = (points / length)[:, None, :] - (points / length)[None, :, :]
        cov = output_scale * np.exp(-0.5 * np.sum(apart**2, axis=2)) + noise_scale * np.eye(len(points))
        return -stats.multivariate_normal.logpdf(heights, mean * np.ones(len(points)), cov)

    def black_box_svi(parameters):
        mean, log_std = parameters[:2], parameters[2:]
        samples = noise * np.exp(log_std) + mean
        log_density = stats.norm.logpdf(samples[:, 1], 0.0, 1.35) + stats.norm.logpdf(samples[:, 0], 0.0, np.exp(samples[:, 1]))
        return -np.mean(log_density) - np.sum(log_std)

    def mixture(parameters):
        proportions, means, roots = parameters
        total = []
        for k in range(3):
            cov = np.dot(roots[k].T, roots[k]) + np.eye(4)
            rest = signals - means[k]
            distance = np.sum(rest * np.linalg.solve(cov, rest.T).T, axis=1)
            total.append(proportions[k] - 0.5 * distance - 0.5 * np.linalg.slogdet(cov)[1])
        return -np.sum(special.logsumexp(np.stack(total), axis=0)) + many * special.logsumexp(proportions)

    def rnn(parameters):
        change, predict = parameters
        state, loss = np.zeros((16, 30)), 0.0
        for word, following in pairwise(words):
            state = np.tanh(np.dot(np.hstack([word, state]), change))
            scores = np.dot(state, predict)
            loss = loss - np.sum((scores - special.logsumexp(scores, axis=1, keepdims=True)) * following)
        return loss

    def lstm(parameters):
        gates, predict = parameters[:4], parameters[4]
        state, cell, loss = np.zeros((16, 30)), np.zeros((16, 30)), 0.0
        sigmoid = lambda x: 0.5 * (np.tanh(x) + 1.0)
        for word, following in pairwise(words):
            seen = np.hstack([word, state])
            cell = sigmoid(np.dot(seen, gates[0])) * cell + sigmoid(np.dot(seen, gates[1])) * np.tanh(np.dot(seen, gates[2]))
            state = sigmoid(np.dot(seen, gates[3])) * np.tanh(cell)
            scores = np.dot(state, predict)
            loss = loss - np.sum((scores - special.logsumexp(scores, axis=1, keepdims=True)) * following)
        return loss

    def fluid(velocity):
        vx, vy = velocity
        for _ in range(3):
            divergence = -0.5 * (np.roll(vx, -1, axis=1) - np.roll(vx, 1, axis=1) + np.roll(vy, -1, axis=0) - np.roll(vy, 1, axis=0)) / side
            pressure = np.zeros((side, side))
            for _ in range(5):
                around = np.roll(pressure, 1, axis=1) + np.roll(pressure, -1, axis=1)
                pressure = (divergence + around + np.roll(pressure, 1, axis=0) + np.roll(pressure, -1, axis=0)) / 4.0
            vx = vx - 0.5 * side * (np.roll(pressure, -1, axis=1) - np.roll(pressure, 1, axis=1))
            vy = vy - 0.5 * side * (np.roll(pressure, -1, axis=0) - np.roll(pressure, 1, axis=0))
        return np.mean((vx - target) ** 2) + np.mean(vy**2)

    def hidden_markov(parameters):
        transition, emission = parameters
        transition = transition - special.logsumexp(transition, axis=1, keepdims=True)
        emission = emission - special.logsumexp(emission, axis=1, keepdims=True)
        forward = emission[:, symbols[0]]
        for symbol in symbols[1 : 4 * steps]:
            forward = special.logsumexp(forward[:, None] + transition, axis=0) + emission[:, symbol]
        return -special.logsumexp(forward)

    def ica(unmixing):
        sources = np.dot(signals, unmixing)
        return -np.sum(stats.t.logpdf(sources, 5.0)) - many * np.linalg.slogdet(unmixing)[1]

    def negative_binomial(parameters):
        size, chance = np.exp(parameters[0]), 1.0 / (1.0 + np.exp(-parameters[1]))
        terms = special.gammaln(counts + size) - special.gammaln(size) - special.gammaln(counts + 1.0)
        return -np.sum(terms + size * np.log1p(-chance) + counts * np.log(chance))

    def autoencoder(parameters):
        encoder, decoder = parameters
        code = network(encoder, images)
        mean, log_std = code[:, :2], code[:, 2:]
        drawn = mean + noise * np.exp(log_std)
        logits = network(decoder, drawn)
        likelihood = -np.sum(np.logaddexp(0.0, -logits * (2.0 * (images > 0.5) - 1.0)))
        prior = np.sum(stats.norm.logpdf(drawn, 0.0, 1.0)) - np.sum(stats.norm.logpdf(drawn, mean, np.exp(log_std)))
        return -(likelihood + prior) / many

    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    normal = lambda *shape: 0.3 * rng.standard_normal(shape)
    wide = images.shape[1]
    return {
        "logistic regression": (logistic_regression, normal(8)),
        "neural net": (neural_net, layers([wide, 50, 10])),
        "neural net regression": (neural_net_regression, layers([1, 20, 20, 1])),
        "Gaussian process": (gaussian_process, normal(4)),
        "black-box variational inference": (black_box_svi, normal(4)),
        "mixture of Gaussians": (mixture, (normal(3), normal(3, 4), normal(3, 4, 4))),
        "RNN": (rnn, (normal(50, 30), normal(30, 20))),
        "LSTM": (lstm, (*(normal(50, 30) for _ in range(4)), normal(30, 20))),
        "fluid": (fluid, (normal(side, side), normal(side, side))),
        "hidden Markov model": (hidden_markov, (normal(5, 5), normal(5, 6))),
        "ICA": (ica, numpy.eye(4) + normal(4, 4)),
        "negative binomial": (negative_binomial, normal(2)),
        "variational autoencoder": (autoencoder, (layers([wide, 50, 4], 2), layers([2, 50, wide], 3))),
        "Rosenbrock": (rosenbrock, normal(10)),
    }


def flat(tree):
    return np.concatenate([np.zeros(0), *map(flat, tree)]) if isinstance(tree, tuple | list) else np.ravel(tree)


def cases(np, special, stats, quick, differentiated, answer=lambda value: value):
    for name, (loss, parameters) in losses(np, special, stats, quick).items():
        yield GRADIENT.title, name, Case(differentiated(loss), (parameters,), answer)


# --- peers ------------------------------------------------------------------------------------------------------------------


def primals(quick):
    from dualad.scipy import special, stats

    yield from cases(np, special, stats, quick, lambda loss: loss)


def with_autograd(quick):
    import autograd.numpy
    import autograd.scipy.special
    import autograd.scipy.stats
    from autograd import grad

    yield from cases(autograd.numpy, autograd.scipy.special, autograd.scipy.stats, quick, grad, flat)


def with_checkpoint(quick):
    import checkpoint
    from dualad.scipy import special, stats

    yield from cases(np, special, stats, quick, checkpoint.grad, flat)


def with_jit(quick):
    import checkpoint
    import dualad
    from dualad.scipy import special, stats

    yield from cases(np, special, stats, quick, lambda loss: dualad.jit(checkpoint.grad(loss)), flat)


PEERS = {
    "autograd": Peer(with_autograd, needs="autograd"),
    "checkpoint": Peer(with_checkpoint, ours=True),
    "dualad.jit": Peer(with_jit, ours=True),
}

if __name__ == "__main__":
    sys.exit(main("autograd_examples", [GRADIENT], primals, PEERS))
