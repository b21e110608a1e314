"""``scipy.spatial.transform``: rotations by traced angles, vectors, matrices and quaternions.

A rotation is a unit quaternion (x, y, z, w), with SciPy's bits; each way into one and out of one is a body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import transform as st

from ...constants import stopped
from ...cotangents import is_symbolic
from ...indexing import getitem
from ...kinds import any_traced, ndim_of, shape_of
from ...linalg import mT
from ...shapes import as_array
from ..entering import by_body

SciPys: Any = st.Rotation
SciPysSlerp: Any = st.Slerp


# --- quaternions --------------------------------------------------------------------------------------------------------------------


def norm_squared(v):
    return np.sum(v * v, axis=-1, keepdims=True)


def parts(q):
    return q[..., :3], q[..., 3:]


def joined(v, w):
    return np.concatenate([v, w], axis=-1)


def product(p, q):
    (v, a), (u, b) = parts(p), parts(q)
    return joined(a * u + b * v + np.cross(v, u), a * b - np.sum(v * u, axis=-1, keepdims=True))


def canonical_sign(q):
    """Return the one of two opposite quaternions whose last element is positive."""
    return np.where(stopped(q[..., 3:]) < 0.0, -1.0, 1.0) * q


def near_zero(s, series, formula):
    """Return a function of a square `s` that is smooth at 0, where its formula is not."""
    small = stopped(s) < 1e-6
    return np.where(small, series(s), formula(np.where(small, 1.0, s)))


def from_quat(quat, *, scalar_first=False):
    quat = np.roll(quat, -1, axis=-1) if scalar_first else quat
    return quat / np.sqrt(norm_squared(quat))


def from_rotvec(rotvec, degrees=False):
    rotvec = np.radians(rotvec) if degrees else rotvec
    s = norm_squared(rotvec)
    share = near_zero(s, lambda s: 0.5 - s / 48.0 + s * s / 3840.0, lambda s: np.sin(0.5 * np.sqrt(s)) / np.sqrt(s))
    return joined(share * rotvec, near_zero(s, lambda s: 1.0 - s / 8.0 + s * s / 384.0, lambda s: np.cos(0.5 * np.sqrt(s))))


def from_mrp(mrp):
    s = norm_squared(mrp)
    return joined(2.0 * mrp, 1.0 - s) / (1.0 + s)


def from_euler(seq, angles, degrees=False):
    angles = 0.5 * (np.radians(angles) if degrees else angles)
    angles = angles[..., None] if len(seq) == 1 and (shape_of(angles)[-1:] != (1,)) else angles
    q = None
    for k, letter in enumerate(seq):
        axis = np.eye(3)["xyz".index(letter.lower())]
        turn = joined(np.sin(angles[..., k, None]) * axis, np.cos(angles[..., k, None]))
        q = turn if q is None else product(q, turn) if seq.isupper() else product(turn, q)
    return q


#: Newton's steps to the nearest rotation, which SciPy 1.13 does not take: there a sheared matrix turns by another angle
SHEAR = SciPys.from_matrix([[1.0, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
NEWTON_STEPS = 7 if abs(SHEAR.magnitude() - np.arctan2(0.3, 2.0)) < 1e-9 else 0


def from_matrix(matrix):
    """Return the quaternion of the nearest rotation, by Newton's iteration for the polar factor with Higham's scaling (1986)."""
    for _ in range(NEWTON_STEPS):
        inverse = mT(np.linalg.inv(matrix))
        squares = (np.sum(stopped(x) ** 2, axis=(-1, -2), keepdims=True) for x in (inverse, matrix))
        scale = np.divide(*squares) ** 0.25  # which changes no polar factor
        matrix = 0.5 * (scale * matrix + inverse / scale)
    m = lambda i, j: matrix[..., i, j]
    trace = m(0, 0) + m(1, 1) + m(2, 2)
    rows = [np.stack([1.0 + 2.0 * m(i, i) - trace if i == j else m(i, j) + m(j, i) for j in range(3)], -1) for i in range(3)]
    ends = [m((i + 2) % 3, (i + 1) % 3) - m((i + 1) % 3, (i + 2) % 3) for i in range(3)]
    whole = np.stack([np.concatenate([row, end[..., None]], -1) for row, end in zip(rows, ends, strict=True)], -2)
    whole = np.concatenate([whole, np.concatenate([np.stack(ends, -1), (1.0 + trace)[..., None]], -1)[..., None, :]], -2)
    best = np.argmax(np.stack([*(stopped(m(i, i)) for i in range(3)), stopped(trace)], -1), axis=-1)
    chosen = np.sum(whole * getitem(np.eye(4), best)[..., None], axis=-2)
    return chosen / np.sqrt(norm_squared(chosen))


def as_quat(q, canonical=False, scalar_first=False):
    q = canonical_sign(q) if canonical else q
    return np.roll(q, 1, axis=-1) if scalar_first else q


def as_matrix(q):
    x, y, z, w = (q[..., k] for k in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), -x * x - y * y + z * z + w * w],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def as_rotvec(q, degrees=False):
    v, w = parts(canonical_sign(q))
    s = norm_squared(v)
    nearly = lambda s: 2.0 / w * (1.0 - s / (3.0 * w**2) + s * s / (5.0 * w**4))
    turned = near_zero(s, nearly, lambda s: 2.0 * np.arctan2(np.sqrt(s), w) / np.sqrt(s)) * v
    return np.degrees(turned) if degrees else turned


def as_mrp(q):
    v, w = parts(canonical_sign(q))
    return v / (1.0 + w)


def as_euler(q, seq, degrees=False):
    """Return the angles by half sums and half differences (Bernardes & Viollet 2022)."""
    i, j, k = (("xyz".index(letter)) for letter in (seq.lower()[::-1] if seq.isupper() else seq))
    proper = i == k
    k = 3 - i - j if proper else k
    sign = 0.5 * (i - j) * (j - k) * (k - i)
    x = [q[..., n] for n in range(4)]
    a, b, c, d = x[3], x[i], x[j], sign * x[k]
    if not proper:
        a, b, c, d = a - c, b + d, c + a, d - b
    middle = 2.0 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
    half_sum, half_difference = np.arctan2(b, a), np.arctan2(d, c)
    first, third = half_sum - half_difference, half_sum + half_difference
    if not proper:
        third, middle = sign * third, middle - 0.5 * np.pi
    ends = (third, first) if seq.isupper() else (first, third)
    angles = np.stack([ends[0], middle, ends[1]], -1)
    angles = angles - 2.0 * np.pi * np.round(stopped(angles) / (2.0 * np.pi))
    return np.degrees(angles) if degrees else angles


def magnitude(q):
    v, w = parts(canonical_sign(q))
    return 2.0 * np.arctan2(np.sqrt(norm_squared(v)), w)[..., 0]


def inv(q):
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def apply(q, vectors, inverse=False):
    u, w = parts(inv(q) if inverse else q)
    twice = 2.0 * np.cross(u, vectors)
    return vectors + w * twice + np.cross(u, twice)


def power(q, n):
    """Return a power by the canonical quaternion, but for the powers 1 and -1, of which SciPy keeps the sign."""
    kept = (np.abs(stopped(n)) == 1.0) & (stopped(q[..., 3:]) < 0.0)
    return np.where(kept, -1.0, 1.0) * from_rotvec(n * as_rotvec(q))


# --- the class ----------------------------------------------------------------------------------------------------------------------


def unit(q: Any) -> Any:
    """Return SciPy's rotation of a unit quaternion, with its bits."""
    return SciPys(q, normalize=False)


def row(name: str, call: Callable, body: Callable) -> Callable:
    return by_body(call, body, f"scipy.spatial.transform.Rotation.{name}")


def constructor(body: Callable) -> Any:
    """Return a method that makes a rotation."""
    scipys = getattr(SciPys, body.__name__)
    quaternion = row(body.__name__, lambda *args, **kwargs: scipys(*args, **kwargs).as_quat(), body)
    return classmethod(lambda cls, *args, **kwargs: cls.holding(quaternion(*args, **kwargs)))


def conversion(body: Callable) -> Callable:
    """Return a method that gives numbers."""
    value = row(body.__name__, lambda q, *args, **kwargs: getattr(unit(q), body.__name__)(*args, **kwargs), body)
    return lambda self, *args, **kwargs: value(self.quaternion, *args, **kwargs)


multiplied = row("__mul__", lambda p, q: (unit(p) * unit(q)).as_quat(), product)
inverted = row("inv", lambda q: unit(q).inv().as_quat(), inv)
raised = row("__pow__", lambda q, n: (unit(q) ** n).as_quat(), power)


def as_rotation(x: Any) -> Any:
    return Rotation.holding(x.as_quat()) if isinstance(x, SciPys) else x


def as_scipys(x: Any) -> Any:
    if type(x) in (list, tuple):
        return type(x)(map(as_scipys, x))
    if type(x) is not Rotation:
        return x
    if any_traced(x.quaternion):
        raise TypeError("a traced scipy.spatial.transform.Rotation has no derivative there: pass one of plain values (dualad.primal)")
    return unit(x.quaternion)


def wrap_method(found: Any) -> Any:
    """Return an attribute of SciPy's class, or of one of its rotations; a method takes and gives rotations of ours."""
    return (lambda *args, **kwargs: as_rotation(found(*map(as_scipys, args), **kwargs))) if callable(found) else found


class Kind(type):
    """Looks up what has no body here at SciPy's class, for plain values."""

    def __getattr__(cls, name: str) -> Any:
        return wrap_method(getattr(SciPys, name))

    def __instancecheck__(cls, x: Any) -> bool:
        return type.__instancecheck__(cls, x) or isinstance(x, SciPys)


class Rotation(metaclass=Kind):
    quaternion: Any

    def __init__(self, quat: Any, normalize: bool = True, copy: bool = True, scalar_first: bool = False) -> None:
        quat = np.roll(quat, -1, axis=-1) if scalar_first else quat
        self.quaternion = Rotation.from_quat(quat).quaternion if normalize else quat

    @classmethod
    def holding(cls, quaternion: Any) -> Rotation:
        rotation = object.__new__(cls)
        rotation.quaternion = quaternion
        return rotation

    def inv(self) -> Rotation:
        return Rotation.holding(inverted(self.quaternion))

    def __mul__(self, other: Any) -> Rotation:
        return Rotation.holding(multiplied(self.quaternion, as_rotation(other).quaternion))

    def __pow__(self, n: float) -> Rotation:
        return Rotation.holding(raised(self.quaternion, n))

    @property
    def single(self) -> bool:
        return len(shape_of(self.quaternion)) == 1

    def __len__(self) -> int:
        return len(unit(np.ones(shape_of(self.quaternion))))  # or SciPy's error

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation.holding(self.quaternion[index])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(SciPys, name):
            raise AttributeError(name)
        return wrap_method(getattr(as_scipys(self), name))


WAYS: dict[Callable, Callable] = {
    **dict.fromkeys((from_quat, from_rotvec, from_mrp, from_euler, from_matrix), constructor),
    **dict.fromkeys((as_quat, as_rotvec, as_mrp, as_euler, as_matrix, apply, magnitude), conversion),
}
for _body, _way in WAYS.items():
    setattr(Rotation, _body.__name__, _way(_body))
Rotation.__module__, Rotation.__doc__ = "scipy.spatial.transform", SciPys.__doc__


class Slerp:
    """Rotations between rotations, by the rotations and by the times at which they are asked for."""

    def __init__(self, times: Any, rotations: Any) -> None:
        rotations = as_rotation(rotations)
        given = like_plain(rotations.quaternion) if isinstance(rotations, Rotation) else rotations
        self.times = SciPysSlerp(times, given).times  # or SciPy's error
        self.starts = rotations[:-1]
        self.steps = (self.starts.inv() * rotations[1:]).as_rotvec()

    def __call__(self, times: Any) -> Rotation:
        times = as_array(times) if any_traced(times) else np.asarray(times, float)
        at = np.reshape(times, (-1,)) if ndim_of(times) == 0 else times
        plain = stopped(at) * 1.0
        if not is_symbolic(plain) and np.any((plain < self.times[0]) | (plain > self.times[-1])):
            raise ValueError(f"Interpolation times must be within the range [{self.times[0]}, {self.times[-1]}], both inclusive.")
        i = np.maximum(np.searchsorted(self.times, plain) - 1, 0)
        share = (at - getitem(self.times, i)) / getitem(np.diff(self.times), i)
        steps = Rotation.from_rotvec(getitem(self.steps, i) * share[:, None])
        rotation = Rotation.holding(getitem(self.starts.quaternion, i)) * steps
        return rotation[0] if ndim_of(times) == 0 else rotation


def like_plain(q: Any) -> Any:
    """Return rotations of SciPy's, as many as traced quaternions are."""
    return unit(np.ones(shape_of(q)) if any_traced(q) else q)


Slerp.__module__, Slerp.__doc__ = "scipy.spatial.transform", SciPysSlerp.__doc__
FUNCTIONS = {"Rotation": Rotation, "Slerp": Slerp}
