"""Other people's code: functions of packages from PyPI, unedited and adapted, differentiated in both modes against central differences.

    pip install ahrs astropy chemicals colour-science control empyrical-reloaded fastdtw filterpy fluids galpy geographiclib hmmlearn ht \
        hydroeval iapws lmfit magpylib metpy mibian navpy numdifftools numpy-financial numpy-groupies psychrolib pvlib pyabel pyhf \
        pykalman pymap3d pymoo pyportfolioopt pyquaternion pyxsteam quantecon refet ruptures scikit-fuzzy scikit-learn scipy sgp4 \
        similaritymeasures skyfield splines squaternion statsmodels sympy thermo transforms3d trimesh uncertainties
    pip install ambiance aotools ase astral blackscholes bruges coloraide colorspacious dust-extinction emcee geomdl geopy haversine \
        HydroErr ikpy miepython nelson-siegel-svensson nvector padasip peakutils permetrics POT ppigrf properscoring pyloudnorm pyromat \
        pyrr pysolar pytransform3d rowan scikit-rf scikit-spatial seawater svgpathtools thermofeel tmm utm vector vg
    pip install --no-deps allantools calfem-python circle-fit euclid3 findiff frechetdist geomag geometer hsluv lsq-ellipse meteocalc \
        nurbspy opfunu pyciede2000 pygeodesy pylorentz pymannkendall pyorbital pysabr scikit-commpy scikit-kinematics soerp \
        spatialmath-python spectres sunposition trianglesolver wellpathpy
    python -m benchmarks.other_code [package ...] [--details]

A line of the list, `other_code.txt`, is a call as a user writes it. Each float in it is an input, and so is each array of floats
``A(...)``; ``C(...)`` is a constant. The derivative is taken along one direction, of the sum of all numbers of the result with fixed
weights. It is

right : both modes give what central differences give, to their accuracy
raises : a mode raises, by name
constant : the derivative is zero, which says nothing
wrong : a mode gives another number
nan : a mode gives no finite number
slow : a mode takes more than 20 s

A package that is not installed is left out. Takes about a quarter of an hour.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import importlib.util
import io
import signal
import sys
import types
import warnings
from pathlib import Path

import numpy as np

from .harness import counts_table, rows_of

LIST = Path(__file__).with_suffix(".txt")

# --- what takes more than one line ------------------------------------------------------------------------------------------------


def kalman_likelihood(kind, r, q, p):
    kf = kind(dim_x=2, dim_z=1)
    kf.F, kf.H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    kf.P *= p
    kf.R *= r
    kf.Q = np.eye(2) * q
    total = 0.0
    for z in (1.0, 2.1, 2.9, 4.2, 5.1):
        kf.predict()
        kf.update(z)
        total = total + kf.log_likelihood
    return total


def unscented_likelihood(kalman, r, q):
    points = kalman.MerweScaledSigmaPoints(2, 0.1, 2.0, 1.0)
    kf = kalman.UnscentedKalmanFilter(2, 1, 1.0, lambda x: x[:1], lambda x, dt: np.stack([x[0] + dt * x[1], x[1]]), points)
    kf.R = kf.R * r
    kf.Q = np.eye(2) * q
    total = 0.0
    for z in (1.0, 2.1, 2.9):
        kf.predict()
        kf.update(z)
        total = total + kf.log_likelihood
    return total


def information_filter(kalman, r, q):
    kf = kalman.InformationFilter(2, 1)
    kf.F, kf.H, kf.P_inv = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.eye(2)
    kf.R_inv = kf.R_inv * r
    kf.Q = np.eye(2) * q
    for z in (1.0, 2.1, 2.9):
        kf.predict()
        kf.update(z)
    return kf.x


def pyhf_model(pyhf):
    return pyhf.simplemodels.uncorrelated_background(signal=[5.0, 10.0], bkg=[50.0, 60.0], bkg_uncertainty=[5.0, 12.0])


def pyhf_logpdf(pyhf, parameters):
    model = pyhf_model(pyhf)
    return model.logpdf(parameters, np.array([53.0, 65.0, *model.config.auxdata]))


def pyhf_expected(pyhf, parameters):
    return pyhf_model(pyhf).expected_data(parameters)


def pyhf_interpolated(pyhf, code, alphas):
    return getattr(pyhf.interpolators, code)([[[[0.9], [1.0], [1.2]]]])(alphas)


def pykalman_filter(pykalman):
    return pykalman.KalmanFilter(
        np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), 0.1 * np.eye(2), np.eye(1), None, None, np.zeros(2), np.eye(2)
    )


def pykalman_likelihood(pykalman, observations):
    return pykalman_filter(pykalman).loglikelihood(observations)


def pykalman_smoothed(pykalman, observations):
    return pykalman_filter(pykalman).smooth(observations)[0]


def ridge_prediction(x, y):
    from sklearn.linear_model import Ridge

    return Ridge(0.3).fit(x, y).predict(x)


def ase_energy(atoms, calculator, positions):
    argon = atoms("Ar3", positions=positions)
    argon.calc = calculator()
    return argon.get_potential_energy()


def geomdl_curve(splines, points, u):
    curve = splines.Curve()
    curve.degree, curve.ctrlpts, curve.knotvector = 2, points, [0, 0, 0, 0.5, 1, 1, 1]
    return curve.evaluate_single(u)


# --- a call and its derivative ------------------------------------------------------------------------------------------------------


class Inputs(ast.NodeTransformer):
    """Takes the floats and arrays of floats out of a call: names stand in their place."""

    def __init__(self):
        self.values = []

    def taken(self, value):
        self.values.append(value)
        return ast.Name(f"input_{len(self.values)}", ast.Load())

    def visit_Constant(self, node):
        return self.taken(node.value) if type(node.value) is float else node

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.USub) and type(getattr(node.operand, "value", None)) is float:
            return self.taken(-node.operand.value)
        return self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, "id", None)
        if name == "A":
            return self.taken(np.array([ast.literal_eval(arg) for arg in node.args]))
        return (
            ast.Call(ast.Name("np.array"), node.args, [])
            if name == "C" and isinstance(node.args[0], ast.List)
            else (node.args[0] if name == "C" else self.generic_visit(node))
        )


def call_of(text, space):
    """Return the call as a function of its inputs, and these."""
    inputs = Inputs()
    tree = inputs.visit(ast.parse(text.strip(), mode="eval"))
    names = ", ".join(f"input_{i + 1}" for i in range(len(inputs.values)))
    body = ast.unparse(ast.fix_missing_locations(tree))
    return eval(f"lambda {names}: total(({body}))", space), tuple(inputs.values)


def numbers(result):
    """Yield the numbers and arrays that a result holds."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list | tuple) or (isinstance(result, np.ndarray) and result.dtype == object):
        for part in result:
            yield from numbers(part)
    elif hasattr(result, "dtype") or isinstance(result, int | float | complex):
        yield result
    elif result is not None and not isinstance(result, str):
        raise TypeError(f"a result of type {type(result).__name__}")


def total(result):
    """Return the sum of all numbers of a result, each with a weight of its own."""
    value = 0.0
    for k, part in enumerate(numbers(result)):
        weights = np.cos(0.7 + k + np.arange(np.size(part))).reshape(np.shape(part))
        value = value + np.sum(weights * (np.real(part) + 0.3 * np.imag(part)))
    return value


def differences(f, inputs, direction):
    """Return the derivative along a direction by central differences, and how far those of other steps are from it."""
    moved = lambda h: f(*(x + h * t for x, t in zip(inputs, direction, strict=True)))
    slopes = [(moved(h) - moved(-h)) / (2 * h) for h in (1e-3, 1e-4, 1e-5, 1e-6)]
    slopes += [(4 * slopes[1] - (moved(2e-4) - moved(-2e-4)) / 4e-4) / 3]
    pairs = [(abs(a - b), a) for i, a in enumerate(slopes) for b in slopes[:i]]
    return min(pairs)[::-1]


class Slow(BaseException):
    pass


def stop(*_):
    raise Slow


def outcome(text, space, modules):
    """Return what becomes of a call, and its details."""
    import checkpoint
    import dualad

    f, inputs = call_of(text, space)
    direction = tuple(np.cos(3.0 + i + np.arange(np.size(x))).reshape(np.shape(x))[()] * np.abs(x) for i, x in enumerate(inputs))
    try:
        slope, spread = differences(f, inputs, direction)
    except Exception as error:
        return "does not run", repr(error)
    answers = []
    for mode in (
        lambda: dualad.jvp(f, inputs, direction)[1],
        lambda: sum(np.sum(g * t) for g, t in zip(checkpoint.grad(f, argnums=tuple(range(len(inputs))))(*inputs), direction, strict=True)),
    ):
        signal.alarm(20)
        try:
            with dualad.adapt(*modules):
                answers.append(float(mode()))
        except Slow:
            return "slow", ""
        except Exception as error:
            return "raises", f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
    details = f"{answers} for {slope} +- {spread:.1e}"
    if not np.all(np.isfinite(answers)):
        return "nan", details
    if slope == 0:
        return "constant", details
    right = np.allclose(answers, slope, rtol=1e-4, atol=10 * spread + 1e-12)
    return ("right" if right else "wrong"), details


def calls():
    """Return the list: of each package its imports and its calls."""
    sections = [section.strip().splitlines() for section in LIST.read_text().split("\n[")]
    return {head.strip("[").partition("] ")[0]: (head.partition("] ")[2], rest) for head, *rest in sections}


def run(package):
    """Print the outcome of each call of a package, tab-separated."""
    signal.signal(signal.SIGALRM, stop)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    imports, texts = calls()[package]
    module = types.ModuleType("calls")  # as a module of the user's
    space = vars(module)
    space |= globals() | {"__name__": "calls"}
    sys.modules["calls"] = module
    with contextlib.redirect_stdout(io.StringIO()):
        exec(imports, space)
    roots = {
        node.module or "" if isinstance(node, ast.ImportFrom) else name.name
        for node in ast.walk(ast.parse(imports))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    modules = [module, *(sys.modules[root] for root in sorted({root.partition(".")[0] for root in roots} - {"scipy"}))]
    for call in texts:
        with contextlib.redirect_stdout(io.StringIO()):
            found, details = outcome(call, space, modules)
        print(package, call, found, " ".join(details.split()), sep="\t", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", default=[])
    parser.add_argument("--details", action="store_true", help="print errors and numbers")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return run(*options.packages)
    counts = {}
    for package in options.packages or calls():
        if importlib.util.find_spec(package) is None:
            print(f"{package} is not installed")
            continue
        counts[package] = collections.Counter()
        for _, call, found, details in rows_of("other_code", package, "--inside"):
            counts[package][found] += 1
            print(f"{found:8} {call}" + (f"\n         {details}" if options.details and found != "right" else ""))
    sums = sum(counts.values(), collections.Counter())
    print("\n" + counts_table("package", counts))
    print(f"right: {sums['right']} of {sums.total()}, {sums['right'] / max(sums.total(), 1):.0%}")
    return None


if __name__ == "__main__":
    main()
