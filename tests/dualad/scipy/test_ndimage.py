"""scipy.ndimage: values are SciPy's to the last bit, derivatives those of differences; every row has samples."""

from itertools import product

import numpy as np
import pytest
from scipy_calls import check_adapted, check_calls, check_refused

pytest.importorskip("scipy")
from scipy import ndimage

from dualad.rules.scipy.ndimage import FUNCTIONS

RNG = np.random.default_rng(3)
X, Y, Z = RNG.standard_normal(7), RNG.standard_normal(3), RNG.standard_normal(4) + 1j * RNG.standard_normal(4)
M, N, K = RNG.standard_normal((5, 4)), RNG.standard_normal((2, 3)), RNG.standard_normal((3, 3))
APART = 0.37 * RNG.permutation(20).reshape(5, 4)  # no two elements are so near that a difference swaps them
EDGES = ("reflect", "constant", "nearest", "mirror", "wrap")

CALLS = {
    "correlate1d": [((M, Y), {"mode": mode, "origin": o}) for mode, o in zip((*EDGES, "grid-wrap"), (0, 1, -1, 0, 1, 0), strict=True)]
    + [((M, X[:4], 0, None, "wrap"), {"origin": 1}), ((Z, Z[:3]), {}), ((M.astype("f4"), Y), {"mode": "constant", "cval": 1.5})],
    "convolve1d": [((M, Y), {"mode": mode, "axis": 0, "origin": 1}) for mode in EDGES] + [((M, X[:4]), {"origin": -1}), ((Z, Z[:2]), {})],
    "correlate": [((M, N), {"mode": mode}) for mode in EDGES] + [((M, K), {"origin": (1, -1), "mode": "constant", "cval": 0.3})],
    "convolve": [((M, N), {"mode": mode}) for mode in EDGES] + [((M, N), {"origin": [0, 1]}), ((Z, Z[:3]), {})],
    "gaussian_filter1d": [((M, 0.6), {"mode": mode, "order": k % 3, "axis": 0}) for k, mode in enumerate(EDGES)],
    "gaussian_filter": [((M, 0.6), {}), ((M, [0.5, 0.8], [0, 1]), {"mode": ["wrap", "mirror"]}), ((M, 0.7), {"radius": 2, "cval": 1.0}),
                        ((M, [0.0, 0.5]), {})],
    "uniform_filter1d": [((M, 3), {"mode": mode, "origin": k % 3 - 1}) for k, mode in enumerate(EDGES)] + [((M, 2, 0), {})],
    "uniform_filter": [((M, 3), {}), ((M, [1, 2]), {"origin": [0, -1], "mode": "wrap"})],
    "laplace": [((M,), {}), ((M, None, "wrap"), {}), ((0.7,), {})],
    "gaussian_laplace": [((M, 0.7), {}), ((M, [0.5, 0.6]), {"mode": "nearest", "truncate": 3.0})],
    "gaussian_gradient_magnitude": [((M, 0.7), {}), ((0.7, 0.4), {})],
    "sobel": [((M,), {}), ((M, 0), {"mode": ["wrap", "mirror"]})],
    "prewitt": [((M,), {"axis": 0, "mode": "constant", "cval": 2.0})],
    "maximum_filter1d": [((APART, 3), {}), ((APART, 2), {"axis": 0, "mode": "wrap"})],
    "minimum_filter1d": [((APART, 3), {"origin": 1})],
    "maximum_filter": [((APART, 3), {}), ((APART, (1, 2)), {"mode": "mirror"})],
    "minimum_filter": [((APART, 2), {"mode": "constant", "cval": 2.0})],
    "median_filter": [((APART, 3), {}), ((APART, (1, 4)), {"mode": "nearest"})],
    **{name: [((APART, (3, 3)), {}), ((APART, (2, 1)), {"mode": "wrap", "origin": (0, 0)}), ((APART, 3), {"origin": 1, "mode": "nearest"})]
       for name in ("grey_erosion", "grey_dilation", "grey_opening", "grey_closing", "white_tophat", "black_tophat")},
    "spline_filter1d": [((M,), {"mode": mode, "order": 2 + k % 4}) for k, mode in enumerate(("mirror", "reflect", "grid-wrap"))],
    "spline_filter": [((M,), {}), ((M, 2), {"mode": "reflect"})],
    "shift": [((M, 0.4), {}), ((M, np.array([0.3, -1.2])), {"mode": "mirror", "order": 1})],
    "zoom": [((M, 1.5), {}), ((M, [0.6, 2.0]), {"order": 1, "mode": "nearest"})],
    "affine_transform": [((M, np.array([[0.75, 0.03], [-0.04, 0.72]]), np.array([0.36, 0.5])), {"order": 1}),
                         ((M, np.array([0.7, 0.6])), {"order": 1}),
                         ((M, np.array([[0.75, 0.03, 0.36], [-0.04, 0.72, 0.5]])), {"output_shape": (3, 2)})],
}  # fmt: skip
PLACES = np.array([[0.3, 3.7, 2.2, -1.3, 4.4, 7.8], [1.6, 0.2, 2.9, 1.1, 3.3, -2.6]])
CALLS["map_coordinates"] = [
    ((M, PLACES), {"order": order, "mode": mode, "cval": 0.7})
    for order, mode in product((1, 3), (*EDGES, "grid-wrap", "grid-mirror", "grid-constant"))
] + [((M, PLACES), {"order": order}) for order in (0, 2, 4, 5)] + [((M + 1j * M[::-1], PLACES), {"prefilter": False})]  # fmt: skip
PLAIN = {name: {1} for name in ("gaussian_filter1d", "gaussian_filter", "gaussian_laplace", "gaussian_gradient_magnitude", "zoom")}


def test_every_row_has_samples():
    assert set(CALLS) == set(FUNCTIONS)


@pytest.mark.filterwarnings("ignore:The behavior of affine_transform with a 1-D array")  # of SciPy before 1.14
@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives(name):
    check_calls(FUNCTIONS[name], getattr(ndimage, name), CALLS[name], PLAIN.get(name, ()))


def test_unknown_arguments_are_refused_by_name():
    out = np.empty((5, 4))
    cases = [
        (lambda x: FUNCTIONS["uniform_filter1d"](x, 3, -1, out), "scipy.ndimage.uniform_filter1d has no derivative with .*output"),
        (lambda x: FUNCTIONS["median_filter"](x, footprint=np.ones((2, 2))), "scipy.ndimage.median_filter .*footprint=: give size="),
        (lambda x: FUNCTIONS["maximum_filter"](x, footprint=np.ones((2, 2))), "scipy.ndimage.maximum_filter .*footprint=: give size="),
        (lambda x: FUNCTIONS["grey_opening"](x, footprint=np.ones((2, 2))), "grey_erosion and its kin .*footprint=: give size="),
        (lambda x: FUNCTIONS["gaussian_filter"](M, x[0, 0] + 9.0), "a Gaussian filter has no derivative with respect to 'sigma'"),
        (lambda x: FUNCTIONS["zoom"](x, 2.0, grid_mode=True, mode="grid-wrap"), "scipy.ndimage.zoom has no derivative with .*grid_mode"),
    ]
    check_refused(M, cases)


def test_compiled_and_adapted():
    def loss(p):
        return np.sum(ndimage.gaussian_filter(p * M, 0.6) ** 3) + np.sum(ndimage.map_coordinates(M, p * PLACES[:, :4], order=1))

    check_adapted(loss, np.array([0.5, 0.2, 0.8, -0.3]))
