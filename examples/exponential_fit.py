"""Fit two exponentials to 33 measurements by least squares with the exact Jacobian, and say how well they are known.

    python examples/exponential_fit.py [--plot exponential_fit.png]

Osborne's first function, "exponential data fitting I" of the MINPACK-2 test problems (Averick, Carter, Moré & Xue 1992): the model
y(t) = x1 + x2 exp(-x4 t) + x3 exp(-x5 t), whose sum of squares is 5.46489e-5 at the best. The Jacobian at the solution gives the
uncertainties of the parameters; jvp carries them to the curve.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.optimize import least_squares

from dualad import jacobian, value_and_jacobian

T = 10.0 * np.arange(33)
Y = np.array(
    [
        0.844, 0.908, 0.932, 0.936, 0.925, 0.908, 0.881, 0.850, 0.818, 0.784, 0.751, 0.718, 0.685, 0.658, 0.628, 0.603, 0.580,
        0.558, 0.538, 0.522, 0.506, 0.490, 0.478, 0.467, 0.457, 0.448, 0.438, 0.431, 0.424, 0.420, 0.414, 0.411, 0.406,
    ]
)  # fmt: skip
START = np.array([0.5, 1.5, -1.0, 0.01, 0.02])
BEST = 5.46489e-5


def model(x, t):
    """Return the curve at some times."""
    return x[0] + x[1] * np.exp(-x[3] * t) + x[2] * np.exp(-x[4] * t)


class Residuals:
    """The residuals, which count how often they are evaluated."""

    def __init__(self):
        self.evaluations = 0

    def __call__(self, x):
        self.evaluations += 1
        return model(x, T) - Y


def fit(exact=True, **options):
    """Return SciPy's result and the number of evaluations."""
    residuals = Residuals()
    options = {"x_scale": "jac", "xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12} | options
    if exact:
        both = value_and_jacobian(residuals, cache=True)
        return least_squares(both.value, START, jac=both.jacobian, **options), residuals.evaluations
    return least_squares(residuals, START, **options), residuals.evaluations


def covariance(result):
    """Return the covariance of the parameters, from the Jacobian at the solution."""
    jac = jacobian(Residuals())(result.x)
    return np.linalg.inv(jac.T @ jac) * 2.0 * result.cost / (len(T) - len(result.x))


def deviations(x, covariance, t):
    """Return the standard deviation of the curve at some times."""
    by_x = jacobian(lambda x: model(x, t))(x)
    return np.sqrt(np.einsum("ti,ij,tj->t", by_x, covariance, by_x))


def plot(result, path):
    """Draw the data with the curve, and the residuals with the band of the curve."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, layout="constrained", height_ratios=[2, 1])
    t = np.linspace(T[0], T[-1], 400)
    top.plot(T, Y, "o", ms=4, label="measured")
    top.plot(t, model(result.x, t), label="fit")
    top.plot(t, result.x[0] + result.x[1] * np.exp(-result.x[3] * t), "--", label="slow part")
    top.set(ylabel="y")
    top.legend()
    width = 2.0 * deviations(result.x, covariance(result), t)
    bottom.fill_between(t, -1e3 * width, 1e3 * width, alpha=0.3, label="curve, two standard deviations")
    bottom.plot(T, 1e3 * (Y - model(result.x, T)), "o", ms=4)
    bottom.axhline(0.0, color="gray", lw=0.8)
    bottom.set(xlabel="t", ylabel="1000 residual")
    bottom.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    options = parser.parse_args()
    for name, exact in (("exact Jacobian", True), ("differences", False)):
        result, evaluations = fit(exact)
        print(f"{name:<15} {evaluations:3} evaluations, sum of squares {2.0 * result.cost:.6e}, gradient {result.optimality:.1e}")
        if exact:
            best = result
    for k, (x, deviation) in enumerate(zip(best.x, np.sqrt(np.diag(covariance(best))), strict=True), 1):
        print(f"x{k} = {x:9.6f} ± {deviation:.6f}")
    if options.plot:
        plot(best, options.plot)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
