"""scipy.spatial: distances and rotations have SciPy's values to the last bit, and the derivatives of differences."""

import numpy as np
import pytest
from scipy_calls import check_adapted, check_call, check_calls, check_refused

import dualad
from checkpoint import grad

pytest.importorskip("scipy")
import scipy.spatial.distance
from scipy.spatial import distance, transform

from dualad.rules.scipy.spatial.distance import FUNCTIONS, METRICS
from dualad.rules.scipy.spatial.transform import Rotation
from dualad.scipy.spatial import transform as ours

RNG = np.random.default_rng(11)
U, V, W = RNG.standard_normal(4), RNG.standard_normal(4), np.array([0.5, 1.2, 0.7, 0.9])
A, B = RNG.standard_normal((5, 3)), RNG.standard_normal((2, 3))
P, Q = np.abs(U) + 0.1, np.abs(V) + 0.2
SPREAD = A.T @ A + np.eye(3)
OPTIONS = {"minkowski": {"p": 3.0}, "jensenshannon": {"base": 2.0}}
CALLS = {name: [((U, V), {}), ((U, V), {"w": W})] for name in METRICS} | {
    "minkowski": [((U, V, 3.0), {}), ((U, V), {"w": W}), ((U, V, np.inf), {})],
    "seuclidean": [((U, V, W), {})],
    "mahalanobis": [((A[0], B[0], SPREAD), {})],
    "jensenshannon": [((P, Q), {}), ((np.abs(A), np.abs(A[[1, 2, 3, 4, 0]]), 2.0), {"axis": 1, "keepdims": True})],
    "correlation": [((U, V), {}), ((U, V, W), {}), ((U, V), {"centered": False})],
    "cdist": [((A, B), {"metric": name, **OPTIONS.get(name, {})}) for name in METRICS if name != "jensenshannon"]
    + [((np.abs(A), np.abs(B), "jensenshannon"), {}), ((A, B, "euclidean"), {"w": W[:3]}), ((A, B, "mahalanobis"), {"VI": SPREAD})],
    "pdist": [((A,), {"metric": name}) for name in ("euclidean", "cosine", "seuclidean", "mahalanobis")],
    "squareform": [((np.append(P, Q[:2]),), {}), ((SPREAD,), {"checks": False})],
}
PLAIN = {"minkowski": {2}, "jensenshannon": {2}}


def test_every_metric_has_samples():
    assert set(CALLS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", CALLS)
def test_distances(name):
    check_calls(FUNCTIONS[name], getattr(distance, name), CALLS[name], PLAIN.get(name, ()))


@pytest.mark.filterwarnings("ignore:Casting complex values")  # by SciPy
def test_distances_of_equal_points_and_of_other_metrics():
    assert np.all(np.isfinite(grad(lambda x: np.sum(FUNCTIONS["cdist"](x, x)))(A)))
    squares = lambda u, v: np.sum((u - v) ** 2)
    check_call(FUNCTIONS["cdist"], distance.cdist, (A, B, squares), {})
    for name in ("euclidean", "canberra", "braycurtis"):
        check_call(FUNCTIONS[name], getattr(distance, name), (U + 1j * V, V), {})
    cases = [
        (lambda x: FUNCTIONS["cdist"](x, B, "hamming"), "cdist has no derivative with metric='hamming': use euclidean"),
        (lambda x: FUNCTIONS["pdist"](1j * x, "cosine"), "pdist has no derivative of complex vectors"),
        *(
            (lambda x, name=name: FUNCTIONS[name](x[0], 1j * x[1]), f"{name} has no derivative of complex vectors")
            for name in ("sqeuclidean", "canberra", "braycurtis")
        ),
    ]
    check_refused(A, cases)


VECTOR, QUATERNION, ANGLES = np.array([0.4, -0.9, 0.7]), np.array([0.3, -0.5, 0.2, 0.9]), np.array([0.5, -0.7, 1.1])
MATRIX = transform.Rotation.from_rotvec(VECTOR).as_matrix()
TURNS = {
    "from_quat": [(lambda R: lambda q: R.from_quat(q).as_quat(), QUATERNION), (lambda R: lambda q: R(q).as_quat(True), -QUATERNION),
                  (lambda R: lambda q: R.from_quat(q).as_matrix(), np.array([QUATERNION, QUATERNION[::-1]]))],
    "from_rotvec": [(lambda R: lambda v: R.from_rotvec(v).as_matrix(), VECTOR),
                    (lambda R: lambda v: R.from_rotvec(v).as_quat(), 1e-5 * VECTOR),
                    (lambda R: lambda v: R.from_rotvec(v, degrees=True).as_rotvec(degrees=True), 90.0 * A)],
    "from_mrp": [(lambda R: lambda v: R.from_mrp(v).as_mrp(), VECTOR)],
    "from_euler": [(lambda R, s=s: lambda a: R.from_euler(s, a).as_rotvec(), ANGLES) for s in ("xyz", "ZYX", "zxz", "XYX")]
    + [(lambda R: lambda a: R.from_euler("z", a, degrees=True).as_matrix(), np.array([[20.0], [130.0]])),
       (lambda R: lambda a: R.from_euler("y", a).as_matrix(), 0.3)],
    "from_matrix": [(lambda R: lambda m: R.from_matrix(m).as_quat(), m)
                    for m in (1.1 * MATRIX, np.array([[1.0, 0.2, 0.1], [0.3, 9.0, 0.4], [0.7, 0.1, 0.2]]))],
    "as_euler": [(lambda R, s=s: lambda q: R.from_quat(q).as_euler(s), QUATERNION) for s in ("xyz", "ZYX", "zxz", "XYX", "YXZ", "yzy")]
    + [(lambda R: lambda q: R.from_quat(q).as_euler("zyx", degrees=True), QUATERNION)],
    "the rest": [(lambda R: lambda q: (R.from_quat(q) * R.from_rotvec(VECTOR)).inv().magnitude(), QUATERNION),
                 (lambda R: lambda q: (R.from_quat(q) ** 0.4).as_matrix(), QUATERNION),
                 *((lambda R, n=n: lambda q: (R.from_quat(q) ** n).as_quat(), -QUATERNION) for n in (1, -1, 2)),
                 (lambda R: lambda q: R.from_quat(q)[1].as_rotvec(), np.array([QUATERNION, QUATERNION[::-1]]))],
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_rotations(name):
    for k, (turn, x) in enumerate(TURNS[name]):
        check_call(turn(Rotation), turn(transform.Rotation), (x,), {}, order=1 if k else 2)


def test_rotations_of_vectors_and_matrices():
    turned = lambda R: lambda v, x: R.from_rotvec(v).apply(x)
    check_call(turned(Rotation), turned(transform.Rotation), (VECTOR, A), {})
    back = lambda R: lambda v, x: R.from_rotvec(v).apply(x, inverse=True)
    check_call(back(Rotation), back(transform.Rotation), (A, A[0]), {}, order=1)
    again = lambda v: Rotation.from_matrix(Rotation.from_rotvec(v).as_matrix()).as_rotvec()
    for v in (VECTOR, np.array([2.5, 0.1, 0.3]), np.array([0.1, -2.6, 0.3]), np.array([0.2, 0.1, 2.7])):
        np.testing.assert_allclose(dualad.jacobian(again)(v), np.eye(3), atol=1e-12)
    assert Rotation.from_matrix(MATRIX).as_quat().tobytes() == transform.Rotation.from_matrix(MATRIX).as_quat().tobytes()


@pytest.mark.slow
def test_rotations_between_rotations():
    for times in (1.3, np.array([0.2, 0.4, 1.3, 2.2])):
        between = lambda m, R: lambda v, t: m.Slerp([0.0, 1.0, 2.5], R.from_rotvec(v))(t).as_matrix()
        check_call(between(ours, Rotation), between(transform, transform.Rotation), (0.3 * A[:3], times), {}, order=1)
    check_adapted(lambda v: np.sum(transform.Slerp([0, 1], transform.Rotation.from_rotvec(v))(0.3).as_matrix()[0]), A[:2])
    cases = [
        (lambda v: ours.Slerp([0, 1, 2], Rotation.from_rotvec(v))([0.3, 2.5]).as_quat(), "within the range"),
        (lambda v: ours.Slerp([0, 1, 1], Rotation.from_rotvec(v))(0.3).as_quat(), "increasing"),
        (lambda v: ours.Slerp([0, 1], v)(0.3).as_quat(), "must be a `Rotation` instance"),
    ]
    check_refused(A[:3], cases[:2])
    check_refused(A[0], cases[2:])


def test_of_plain_values_they_are_scipys():
    r = Rotation.from_rotvec(A)
    assert len(r) == 5
    assert isinstance(transform.Rotation.identity(), Rotation)
    assert isinstance(Rotation.identity(2), Rotation)
    assert r.mean().as_quat().tobytes() == transform.Rotation.from_rotvec(A).mean().as_quat().tobytes()
    assert r.approx_equal(r).all() and r.approx_equal(transform.Rotation.from_rotvec(A)).all()
    assert len(Rotation.concatenate([r, transform.Rotation.identity()])) == 6
    check_refused(A, [(lambda v: Rotation.from_rotvec(v).mean().magnitude(), r"a traced .*Rotation has no derivative there")])


@pytest.mark.slow
def test_in_compiled_adapted_code():
    def loss(v):
        turned = transform.Rotation.from_rotvec(v).apply(A)
        return np.sum(scipy.spatial.distance.cdist(turned, B) ** 3)

    assert dualad.scipy.spatial.distance.cdist is FUNCTIONS["cdist"]
    with pytest.raises(AttributeError, match="it has distance, transform"):
        _ = dualad.scipy.spatial.nonesuch
    check_adapted(loss, VECTOR)
    check_adapted(lambda v: np.sum(transform.Rotation.from_matrix(MATRIX + 0.1 * v).as_rotvec() ** 3), VECTOR)
