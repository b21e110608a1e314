"""Fit the likelihood of a histogram by pyhf, unedited: gradients and Hessians without one of its four engines of derivatives.

    python examples/histogram.py [--plot histogram.png]

pyhf says how likely the counts in a histogram are, by the strength of a signal and seven parameters of the background. Inside of `adapt`
its default backend, NumPy, has derivatives: for SciPy's `minimize`, and for the Hessian, which says how well the strength is known.
"""

import numpy as np
from scipy.optimize import minimize
from shared import needed, options, picture

from checkpoint import value_and_grad
from dualad import adapt, hessian

pyhf = needed("pyhf", "pyhf")
COUNTS, BINS = [7, 8, 13, 7, 4], np.arange(5)
UNKNOWN = [
    {"name": "scale", "type": "normsys", "data": {"hi": 1.1, "lo": 0.9}},
    {"name": "slope", "type": "histosys", "data": {"hi_data": [7.0, 6.5, 6.0, 5.5, 5.0], "lo_data": [9.0, 7.5, 6.0, 4.5, 3.0]}},
    {"name": "bins", "type": "staterror", "data": [1.0] * 5},
]
STRONG = [{"name": "strength", "type": "normfactor", "data": None}]
SIGNAL = {"name": "signal", "data": [0.5, 2.0, 4.0, 2.0, 0.5], "modifiers": STRONG}
BACKGROUND = {"name": "background", "data": [8.0, 7.0, 6.0, 5.0, 4.0], "modifiers": UNKNOWN}
MODEL = pyhf.Model({"channels": [{"name": "mass", "samples": [SIGNAL, BACKGROUND]}]}, poi_name="strength")
STRENGTH, DATA = MODEL.config.poi_index, COUNTS + MODEL.config.auxdata


def misfit(parameters):
    """Return minus twice the logarithm of the likelihood."""
    return -2.0 * MODEL.logpdf(parameters, DATA)[0]


@adapt(pyhf)
def fit(least=-2.0, most=10.0):
    """Return SciPy's result with a strength between bounds, and the deviation of the strength: the Hessian's inverse has it."""
    start, bounds = np.array(MODEL.config.suggested_init()), MODEL.config.suggested_bounds()
    bounds[STRENGTH] = least, most
    found = minimize(value_and_grad(misfit), start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-8})
    return found, np.sqrt(2.0 * np.linalg.inv(hessian(misfit)(found.x))[STRENGTH, STRENGTH])


def main():
    plot, (found, deviation), strengths = options(__doc__).plot, fit(), np.linspace(-0.8, 4.8, 15)
    print(f"{found.nfev} evaluations: a strength of {found.x[STRENGTH]:.3f} +- {deviation:.3f}")
    with picture(plot, columns=2, size=(8, 3.6)) as (left, right):
        left.bar(BINS, MODEL.expected_actualdata(found.x), width=1.0, label="signal")
        left.bar(BINS, MODEL.expected_actualdata(np.where(np.arange(8) == STRENGTH, 0.0, found.x)), width=1.0, label="background")
        left.errorbar(BINS, COUNTS, np.sqrt(COUNTS), fmt="ko", label="counted")
        left.set(xlabel="bin", ylabel="events", ylim=(0.0, 21.0))
        right.plot(strengths, [fit(each, each)[0].fun - found.fun for each in strengths], label="fits of the other parameters")
        right.plot(strengths, ((strengths - found.x[STRENGTH]) / deviation) ** 2, "--", label="parabola of the Hessian")
        right.set(xlabel="strength of the signal", ylabel="-2 log likelihood, above the best")
        left.legend()
        right.legend()


if __name__ == "__main__":
    main()
