"""``scipy.spatial.transform``: rotations by traced angles, vectors, matrices and quaternions.

A rotation is a unit quaternion (x, y, z, w), with SciPy's bits; each way into one and out of one is a body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import transform as st

from ...constants import stopped
from ...indexing import getitem
from ...kinds import ndim_of, shape_of
from ..entering import by_body

__all__ = ["FUNCTIONS"]

SciPys: Any = st.Rotation


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


def canonical(q):
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
    angles = angles[..., None] if len(seq) == 1 and (not ndim_of(angles) or shape_of(angles)[-1] != 1) else angles
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
        inverse = np.swapaxes(np.linalg.inv(matrix), -1, -2)
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
    q = canonically(q) if canonical else q
    return np.roll(q, 1, axis=-1) if scalar_first else q


canonically = canonical


def as_matrix(q):
    x, y, z, w = (q[..., k] for k in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), -x * x - y * y + z * z + w * w],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def as_rotvec(q, degrees=False):
    v, w = parts(canonical(q))
    s = norm_squared(v)
    nearly = lambda s: 2.0 / w * (1.0 - s / (3.0 * w**2) + s * s / (5.0 * w**4))
    turned = near_zero(s, nearly, lambda s: 2.0 * np.arctan2(np.sqrt(s), w) / np.sqrt(s)) * v
    return np.degrees(turned) if degrees else turned


def as_mrp(q):
    v, w = parts(canonical(q))
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
    v, w = parts(canonical(q))
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


def title(name: str) -> str:
    return f"scipy.spatial.transform.Rotation.{name}"


def inwards(name: str, body: Callable) -> Callable:
    scipys = getattr(SciPys, name)
    quaternion = by_body(lambda *args, **kwargs: scipys(*args, **kwargs).as_quat(), body, title(name))
    return classmethod(lambda cls, *args, **kwargs: cls.holding(quaternion(*args, **kwargs)))  # type: ignore[return-value]


def outwards(name: str, body: Callable) -> Callable:
    value = by_body(lambda q, *args, **kwargs: getattr(unit(q), name)(*args, **kwargs), body, title(name))
    return lambda self, *args, **kwargs: value(self.quaternion, *args, **kwargs)


multiplied = by_body(lambda p, q: (unit(p) * unit(q)).as_quat(), product, title("__mul__"))
inverted = by_body(lambda q: unit(q).inv().as_quat(), inv, title("inv"))
raised = by_body(lambda q, n: (unit(q) ** n).as_quat(), power, title("__pow__"))


def ours(x: Any) -> Any:
    return Rotation.holding(x.as_quat()) if isinstance(x, SciPys) else x


def scipys_own(x: Any) -> Any:
    if not isinstance(x, Rotation):
        return x
    if hasattr(type(x.quaternion), "__dualad_apply__"):
        raise TypeError("a traced scipy.spatial.transform.Rotation has no derivative there: pass one of plain values (dualad.primal)")
    return unit(x.quaternion)


class Kind(type):
    """Looks up what has no body here at SciPy's class, for plain values."""

    def __getattr__(cls, name: str) -> Any:
        found = getattr(SciPys, name)
        return (lambda *args, **kwargs: ours(found(*map(scipys_own, args), **kwargs))) if callable(found) else found

    def __instancecheck__(cls, x: Any) -> bool:
        return type.__instancecheck__(cls, x) or isinstance(x, SciPys)


class Rotation(metaclass=Kind):
    quaternion: Any

    def __init__(self, quat: Any, normalize: bool = True, copy: bool = True, scalar_first: bool = False) -> None:
        quat = np.roll(quat, -1, axis=-1) if scalar_first else quat
        self.quaternion = Rotation.from_quat(quat).quaternion if normalize else quat

    @classmethod
    def holding(cls, quaternion: Any) -> Rotation:
        made = object.__new__(cls)
        made.quaternion = quaternion
        return made

    from_quat = inwards("from_quat", from_quat)
    from_rotvec = inwards("from_rotvec", from_rotvec)
    from_mrp = inwards("from_mrp", from_mrp)
    from_euler = inwards("from_euler", from_euler)
    from_matrix = inwards("from_matrix", from_matrix)
    as_quat = outwards("as_quat", as_quat)
    as_rotvec = outwards("as_rotvec", as_rotvec)
    as_mrp = outwards("as_mrp", as_mrp)
    as_euler = outwards("as_euler", as_euler)
    as_matrix = outwards("as_matrix", as_matrix)
    apply = outwards("apply", apply)
    magnitude = outwards("magnitude", magnitude)

    def inv(self) -> Rotation:
        return Rotation.holding(inverted(self.quaternion))

    def __mul__(self, other: Any) -> Rotation:
        return Rotation.holding(multiplied(self.quaternion, ours(other).quaternion))

    def __pow__(self, n: float) -> Rotation:
        return Rotation.holding(raised(self.quaternion, n))

    @property
    def single(self) -> bool:
        return ndim_of(self.quaternion) == 1

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return shape_of(self.quaternion)[0]

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation.holding(self.quaternion[index])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(SciPys, name):
            raise AttributeError(name)
        found = getattr(scipys_own(self), name)
        return (lambda *args, **kwargs: ours(found(*map(scipys_own, args), **kwargs))) if callable(found) else found


Rotation.__module__, Rotation.__doc__ = "scipy.spatial.transform", SciPys.__doc__
FUNCTIONS = {"Rotation": Rotation}
