"""Fit the likelihood of a histogram by pyhf, unedited: gradients and Hessians without one of its four engines of derivatives.

    python examples/histogram.py [--plot histogram.png]

pyhf says how likely the counts in a histogram are, given the strength of a signal and seven nuisance parameters: the scale and the
slope of the background, and how well it is known in each bin. Its default backend is NumPy, which has no derivatives; inside of `adapt`
it has them: SciPy's `minimize` gets gradients, the Hessian says how well the strength is known, and a scan how good that is. Needs pyhf.
"""

import argparse

import numpy as np
import pyhf
from scipy.optimize import minimize

from checkpoint import value_and_grad
from dualad import adapt, hessian

COUNTS, SIGNAL = [7, 8, 13, 7, 4], [0.5, 2.0, 4.0, 2.0, 0.5]
BACKGROUND, DEVIATIONS = [8.0, 7.0, 6.0, 5.0, 4.0], [1.0] * 5
SLOPE = {"hi_data": [7.0, 6.5, 6.0, 5.5, 5.0], "lo_data": [9.0, 7.5, 6.0, 4.5, 3.0]}
UNKNOWN = [
    {"name": "scale", "type": "normsys", "data": {"hi": 1.1, "lo": 0.9}},
    {"name": "slope", "type": "histosys", "data": SLOPE},
    {"name": "bins", "type": "staterror", "data": DEVIATIONS},
]
SAMPLES = [
    {"name": "signal", "data": SIGNAL, "modifiers": [{"name": "strength", "type": "normfactor", "data": None}]},
    {"name": "background", "data": BACKGROUND, "modifiers": UNKNOWN},
]
MODEL = pyhf.Model({"channels": [{"name": "mass", "samples": SAMPLES}]}, poi_name="strength")
DATA = COUNTS + MODEL.config.auxdata
STRENGTH = MODEL.config.poi_index


def misfit(parameters):
    """Return minus twice the logarithm of the likelihood."""
    return -2.0 * MODEL.logpdf(parameters, DATA)[0]


@adapt(pyhf)
def fit(strength=None):
    """Return SciPy's result, of a given strength or of all parameters."""
    start, bounds = np.array(MODEL.config.suggested_init()), MODEL.config.suggested_bounds()
    bounds[STRENGTH] = (-2.0, 10.0) if strength is None else (strength, strength)
    return minimize(value_and_grad(misfit), start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-8})


@adapt(pyhf)
def deviation(parameters):
    """Return the standard deviation of the strength: the inverse of the Hessian has those of all parameters."""
    return np.sqrt(2.0 * np.linalg.inv(hessian(misfit)(parameters))[STRENGTH, STRENGTH])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    options = parser.parse_args()
    found = fit()
    print(f"{found.nfev} evaluations: a strength of {found.x[STRENGTH]:.3f} +- {deviation(found.x):.3f}")
    if options.plot:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        bins, background = np.arange(5), found.x.copy()
        background[STRENGTH] = 0.0
        for parameters, name in ((found.x, "signal"), (background, "background")):
            left.bar(bins, MODEL.expected_actualdata(parameters), width=1.0, label=name)
        left.errorbar(bins, COUNTS, np.sqrt(COUNTS), fmt="ko", label="counted")
        left.set(xlabel="bin", ylabel="events", ylim=(0.0, 21.0))
        left.legend()
        strengths = np.linspace(-0.8, 4.8, 15)
        right.plot(strengths, [fit(strength).fun - found.fun for strength in strengths], label="fits of the other parameters")
        right.plot(strengths, ((strengths - found.x[STRENGTH]) / deviation(found.x)) ** 2, "--", label="parabola of the Hessian")
        right.axhline(1.0, color="0.6", lw=0.8)
        right.set(xlabel="strength of the signal", ylabel="-2 log likelihood, above the best")
        right.legend()
        figure.savefig(options.plot, dpi=100)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
