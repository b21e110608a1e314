"""Sample calls of every row in the table, as data.

A sample is a call ``fn(*args, **kwargs)``. Differentiated are the float and complex arrays, NumPy scalars and Python floats among
the positional arguments, also inside lists; what stands in ``fixed(...)`` is not. All samples keep a distance from kinks that
the finite differences do not cross. `SAMPLES` maps each function to its samples; `CONSTANTS` those without derivative.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import scipy.sparse

from dualad.core.traced import Traced
from dualad.rules.constants import stopped
from dualad.rules.indexing import cast, discretize, getitem, last_of, number, restate, scatter, updated
from dualad.rules.kinds import Abstract, strong_multiply
from dualad.rules.linalg import cofactor_matrix, euclidean
from dualad.rules.memory import as_plain_array, copied, in_order
from dualad.rules.names import np
from dualad.rules.primitives import ratio
from dualad.rules.reductions import defined, deviation, difference, put_back, reordered, scattered_difference, variance
from dualad.rules.shapes import blank, clamp, select, surround, zeros_of_shape
from dualad.rules.sparse import times_sparse
from dualad.rules.stable import one_minus_square, root_above_one, turn
from dualad.rules.ufuncs import exponent, fmax_share, fraction, integral_part, larger_share, softmax_share
from dualad.rules.writing import added

random = np.random.default_rng(7)


# --- data -------------------------------------------------------------------------------------------------------------------


def A(*shape):
    """Numbers of both signs, none of them close to 0 or to an integer."""
    return (random.uniform(0.15, 0.85, shape) * random.choice([-1.0, 1.0], shape))[()]


def P(*shape):
    """Positive numbers, none of them close to an integer."""
    return (random.uniform(0.15, 0.85, shape) + random.integers(0, 2, shape))[()]


def G(*shape):
    """Numbers greater than 1."""
    return 1.0 + P(*shape)


def Z(*shape):
    """Complex numbers."""
    return (A(*shape) + 1j * A(*shape))[()]


def on_grid(offset):
    """A domain: numbers of both signs, multiples of 0.4 plus an offset."""
    return lambda *shape: (random.integers(-3, 3, shape) * 0.4 + offset)[()]


def divisors(*shape):
    """Numbers of which no multiple is close to those of ``on_grid(0.1)`` or ``on_grid(0.3)``."""
    return random.choice([-0.8, -0.4, 0.4, 0.8], shape)[()]


def D(*shape):
    """Numbers that differ by at least 0.06 from one another, and so do their sums as a rule."""
    order = random.permutation(np.arange(int(np.prod(shape, dtype=int)))).reshape(shape)
    return (order * 0.1 + random.uniform(-0.02, 0.02, shape) - 0.4321)[()]


def M(*shape):
    """Well-conditioned square matrices."""
    return A(*shape) + 3.0 * np.eye(shape[-1])


def B(*shape):
    """A mask, False on a diagonal."""
    return sum(np.indices(shape)) % 4 != 1


@dataclass
class Fixed:
    value: Any


fixed = Fixed


@dataclass
class Sample:
    """A call; `args` may hold `Fixed` values, which are not differentiated."""

    args: tuple
    kwargs: dict = field(default_factory=dict)
    #: the value has another precision than the differentiated arguments (a cast)
    casts: bool = False

    def leaves(self):
        """Return the leaves of the arguments; arrays are copies, because a call may write into them (``copy=False``)."""
        leaves = [leaf for arg in self.args for leaf in parts(arg) if is_leaf(leaf)]
        return [leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]

    def fill(self, leaves):
        """Return the positional arguments with other leaves in their places."""
        left = iter(leaves)
        return tuple(replace(arg, left) for arg in self.args)

    def __str__(self):
        return f"({', '.join(map(short, self.args))}{''.join(f', {k}={short(v)}' for k, v in self.kwargs.items())})"


def parts(arg):
    return [part for item in arg for part in parts(item)] if type(arg) is list else [arg]


def is_leaf(x):
    return isinstance(x, float | complex) or (isinstance(x, np.ndarray | np.generic | Traced) and x.dtype.kind in "fc")


def replace(arg, left):
    if type(arg) is list:
        return [replace(item, left) for item in arg]
    return next(left) if is_leaf(arg) else arg.value if type(arg) is Fixed else arg


def short(x):
    if isinstance(x, np.ndarray | np.generic):
        return f"{x.dtype.char}{list(x.shape)}"
    return f"fixed {short(x.value)}" if type(x) is Fixed else f"[{', '.join(map(short, x))}]" if type(x) is list else repr(x)


SAMPLES: dict[Any, list[Sample]] = defaultdict(list)
CONSTANTS: dict[Any, list[Sample]] = defaultdict(list)


def call(*args, **kwargs):
    return Sample(args, kwargs)


def sample(*fns):
    """Enter samples for functions: ``sample(fn)(call(...), call(...))``."""

    def enter(*samples):
        for fn in fns:
            SAMPLES[fn] += samples

    return enter


def since(version, *samples):
    """Return samples whose signature this version of NumPy has, none before that version."""
    return samples if np.lib.NumpyVersion(np.__version__) >= version else ()


def over(*options):
    """Return a maker of samples: one array, and all the given keyword arguments in turn."""

    def make(x, *args):
        return [Sample((x, *args), kwargs) for kwargs in options]

    return make


# fmt: off
# --- ufuncs -----------------------------------------------------------------------------------------------------------------

ONE_SHAPE = [(), (3,), (2, 3), (1, 1), (0,), (2, 0, 3)]
TWO_SHAPES = [((), ()), ((3,), (3,)), ((3,), ()), ((), (2, 3)), ((3,), (3, 1)), ((3, 1), (1, 4)), ((2, 3, 4), (2, 1, 4)),
              ((0,), ()), ((0, 3), (1, 3))]


def unary(domain, *fns, complex_too=False):
    for fn in fns:
        SAMPLES[fn] += [call(domain(*shape)) for shape in ONE_SHAPE] + [call(float(domain()))]
        if complex_too:
            SAMPLES[fn] += [call(Z(*shape)) for shape in [(), (3,), (2, 3)]]


def binary(first, second, *fns, complex_too=False):
    for fn in fns:
        SAMPLES[fn] += [call(first(*s), second(*t)) for s, t in TWO_SHAPES]
        SAMPLES[fn] += [call(first(3), float(second())), call(float(first()), second(2, 3)), call(first(3), Fixed(second(3)))]
        if complex_too:
            SAMPLES[fn] += [call(Z(3), Z(3)), call(Z(2, 3), second(3)), call(first(3), Z())]


unary(A, np.negative, np.positive, np.square, np.reciprocal, np.exp, np.exp2, np.expm1, np.sin, np.cos, np.tan, np.sinh, np.cosh,
      np.tanh, np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arctanh, np.absolute, np.conjugate, np.real, np.imag,
      complex_too=True)
unary(A, np.cbrt, np.deg2rad, np.radians, np.rad2deg, np.degrees, np.fabs, fraction, np.modf, np.frexp)
unary(P, np.sqrt, np.log, np.log2, np.log10, np.log1p, complex_too=True)
unary(G, np.arccosh, complex_too=True)
binary(A, A, np.add, np.subtract, np.multiply, np.divide, strong_multiply, complex_too=True)
binary(A, A, np.logaddexp, np.logaddexp2, np.arctan2, np.hypot, np.copysign, np.nextafter)
binary(on_grid(0.1), on_grid(0.3), np.maximum, np.minimum, np.fmax, np.fmin)
binary(P, A, np.power, np.float_power, complex_too=True)
binary(on_grid(0.1), divisors, np.remainder, np.fmod, np.divmod)
sample(np.power)(*(call(A(3), n) for n in (-2, 0, 1, 2, 3)), call(A(3), fixed(2.0)), call(A(2, 3), np.array([1, 2, 3])),
                 call(Z(3), 3))
sample(np.ldexp)(call(A(3), 2), call(A(2, 3), np.array([1, -2, 0])), call(A(), 1))
sample(np.sign)(call(Z(3)), call(Z()), call(A(3)))
sample(clamp)(call(D(4), -0.3, 0.2), call(D(2, 3), -0.25, np.array([0.05, 0.1, 0.08])), call(D(), fixed(-1.0), 1.0))

# --- shapes -----------------------------------------------------------------------------------------------------------------

sample(np.reshape)(call(np.asarray(A()), (1, 1)), call(A(2, 3), (3, 2)), call(A(2, 3), -1), call(A(2, 3), (3, -1), order="F"),
                   call(A(), (1,)), call(A(0, 3), (3, 0)), call(A(2, 3, 4), (4, 6), order="F"), call(A(1), ()),
                   call(Z(6), (2, 3)))
sample(np.ravel)(call(A()), call(A(2, 3)), call(A(2, 3), order="F"), call(A(2, 3, 4), "F"), call(A(0, 2)))
sample(np.transpose)(call(A(3)), call(A(2, 3)), call(A(2, 3, 4)), call(A(2, 3, 4), (1, 0, 2)), call(A(2, 3, 4), (-1, 0, 1)),
                     call(A(2, 3, 4), axes=(2, 0, 1)), call(np.asarray(A())))
sample(np.swapaxes)(call(A(2, 3), 0, 1), call(A(2, 3, 4), -1, 0), call(A(2, 3, 4), 1, -1), call(A(2, 3, 4), axis1=0, axis2=1))
sample(np.moveaxis)(call(A(2, 3, 4), 0, -1), call(A(2, 3, 4), (0, 1), (2, 0)), call(A(2, 3, 4), [-1, 0], [0, 1]),
                    call(A(2, 3, 4), np.array([-1, 0]), np.array([0, 1])))
sample(np.expand_dims)(call(A(3), 0), call(A(3), -1), call(A(2, 3), (0, 2)), call(A(2, 3), (-1, 0)), call(A(), 0))
sample(np.squeeze)(call(A(1, 3, 1)), call(A(1, 3, 1), 0), call(A(1, 3, 1), axis=-1), call(A(1, 3, 1), (0, -1)), call(A(1, 1)),
                   call(A(2, 3)))
sample(np.broadcast_to)(call(A(3), (2, 3)), call(A(), (2, 3)), call(A(2, 1), (2, 3)), call(A(2, 1), (4, 2, 3)), call(A(), 3),
                        call(A(1), (0,)), call(A(2, 3), (2, 3)))
sample(np.flip)(call(A(3)), call(A(2, 3)), call(A(2, 3), 0), call(A(2, 3), axis=-1), call(A(2, 3, 4), (0, -1)))
sample(np.diagonal)(call(A(3, 3)), call(A(2, 3), 1), call(A(3, 2), -1), call(A(2, 3, 4)), call(A(2, 3, 4), 1, 2, 0),
                    call(A(3, 4, 3), axis1=-1, axis2=0), call(A(2, 3), 3))
sample(np.copy)(call(A()), call(A(3)), call(A(2, 3)), call(A(2, 3).T), call(A(2, 3), order="F"))
sample(np.roll)(call(A(4), 1), call(A(4), -6), call(A(2, 3), 1), call(A(2, 3), 1, 0), call(A(2, 3), (1, 2), (0, 1)),
                call(A(2, 3, 4), -1, axis=-1), call(A(0, 3), 1), call(A(2, 3), 2, (0, 1)), call(A(4), np.array(1)),
                call(A(2, 3), np.array([1, 2]), np.array([0, 1])))
sample(np.tril, np.triu)(call(A(3, 3)), call(A(2, 3), 1), call(A(3, 2), k=-1), call(A(2, 3, 4)), call(A(3)))
sample(surround)(call(A(2, 3), ((1, 0), (0, 2))), call(A(3), ((1, 1),), constant_values=5.0))
sample(select)(call(B(3), A(3), A(3)), call(B(2, 3), A(3), A()), call(B(3), A(), A(2, 1)), call(B(2, 1), A(2, 3), 0.0))
sample(blank)(call(A(2, 3)), call(A(), None))
sample(zeros_of_shape)(call(A(2, 3), (3,)), call(A(), (2, 2)))
sample(np.where)(call(B(3), A(3), A(3)), call(B(2, 3), A(3), 0.0), call(B(3), A(), A(2, 1)), call(True, A(3), A()),
                 call(B(2, 3), Z(3), A(2, 3)), call(np.array([0, 2, 1]), A(3), A(3)), call(np.zeros(0, bool), A(0), 1.0))
sample(np.clip)(call(D(4), -0.3, 0.2), call(D(2, 3), None, 0.05), call(D(2, 3), -0.25, None),
                call(D(2, 3), -0.25, np.array([0.05, 0.1, 0.08])), *since("2.1.0", call(D(4), min=-0.3, max=0.2)),
                call(D(4), fixed(-0.3), fixed(0.2)), call(D(), -1.0, 1.0), call(D(4), a_min=-0.3, a_max=None))
XP, FP = np.array([0.0, 1.0, 2.5]), np.array([1.0, -0.5, 2.0])
sample(np.interp)(call(P(4), fixed(XP), FP), call(P(), XP, FP), call(P(2, 3), XP, FP), call(np.array([-0.5, 1.7, 3.0]), XP, FP),
                  call(np.array([-0.5, 1.7, 3.0]), XP, FP, left=4.0, right=5.0),
                  call(np.array([-0.6, 1.7, 3.2]), XP, FP, period=3.0), call(P(3), XP[:1] + 9.0, FP[:1]),
                  call(float(P()), fixed(XP), fixed(FP)))
sample(np.atleast_1d, np.atleast_2d, np.atleast_3d)(call(A()), call(A(3)), call(A(2, 3)), call(A(2, 3, 4)), call(A(3), A()))
sample(np.split)(call(A(4), 2), call(A(5), [2, 3]), call(A(2, 4), 2, 1), call(A(2, 4), [1], axis=-1))
sample(np.array_split)(call(A(5), 2), call(A(5), [2, 3]), call(A(2, 5), 3, 1), call(A(3), 5))
sample(np.diag)(call(A(3)), call(A(3), 1), call(A(3), k=-2), call(A(3, 3)), call(A(2, 3), 1), call(Z(3)), call(A(1)))
sample(np.trace)(call(A(3, 3)), call(A(2, 3), 1), call(A(3, 2, 3), 0, 0, 2), call(A(2, 3, 4)),
                 call(A(2, 3, 4), axis1=-1, axis2=0))
sample(np.take)(call(A(4), np.array([0, 2, 2])), call(A(4), np.array(2)), call(A(2, 3), 4), call(A(2, 3), np.array([[0, 5], [1, 1]])),
                call(A(2, 3), np.array([0, -1]), 1), call(A(2, 3), np.array([[0, 1], [1, 1]]), axis=0),
                call(A(2, 3), np.array([4, -2]), axis=-1, mode="wrap"), call(A(2, 3), np.array([4, -2]), axis=0, mode="clip"),
                call(A(2, 3, 4), 1, axis=1), call(A(2, 3, 4), [0, 2, 0], axis=-2))
sample(np.repeat)(call(A(3), 2), call(A(2, 3), 2), call(A(2, 3), 2, 0), call(A(2, 3), np.array([1, 0, 2]), axis=-1), call(A(), 3))
sample(np.tile)(call(A(3), 2), call(A(2, 3), (2, 1)), call(A(2, 3), (2, 1, 3)), call(A(), 3), call(A(2, 3), 2),
                call(A(3), (2, 2)))
sample(np.pad)(call(A(3), 2), call(A(2, 3), ((1, 0), (0, 2))), call(A(2, 3), 1, constant_values=4.0), call(A(3), (1, 2), "edge"),
               call(A(2, 3), ((1, 1), (2, 2)), "reflect"), call(A(2, 3), 1, "symmetric"),
               call(A(2, 3), ((0, 1), (3, 0)), mode="wrap"), *since("2.4.0", call(A(2, 3), {-1: (1, 2)})), call(A(3), 1, "constant"))
sample(np.zeros_like, np.ones_like)(call(A(2, 3)), call(A()), call(Z(3)))
sample(np.zeros_like)(call(A(2, 3), shape=(4,)), call(A(2, 3), dtype=complex), call(A(2, 3), np.float32), call(A(2, 3), int))
sample(np.full_like)(call(A(2, 3), A()), call(A(2, 3), A(3)), call(A(3), 2), call(A(3), fixed(2.0)),
                     call(A(3), A(), shape=(2, 2)))

# --- joins ------------------------------------------------------------------------------------------------------------------

sample(np.concatenate)(call([A(2), A(3)]), call([A(2, 3), A(1, 3)]), call([A(2, 3), A(2, 1)], 1),
                       call([A(2, 3), A(2, 3)], axis=-1), call([A(2, 3), A(3)], axis=None), call([A(2), Fixed(A(3)), A(0)]),
                       call([Z(2), A(3)]), call([A(2, 3, 1), A(2, 3, 2)], axis=2))
sample(np.stack)(call([A(3), A(3)]), call([A(), 2.0, A()]), call([A(2, 3), A(2, 3)], 1), call([A(2, 3), Fixed(A(2, 3))], axis=-1),
                 call([Z(2), A(2)]))
sample(np.vstack)(call([A(3), A(3)]), call([A(2, 3), A(3)]), call([A(), A()]), call([A(2, 3), A(1, 3)]))
sample(np.hstack)(call([A(3), A(2)]), call([A(2, 3), A(2, 1)]), call([A(), A(2)]), call([A(2, 3, 1), A(2, 1, 1)]))
sample(np.dstack)(call([A(3), A(3)]), call([A(2, 3), A(2, 3)]), call([A(2, 3, 2), A(2, 3)]))
sample(np.column_stack)(call([A(3), A(3)]), call([A(2, 3), A(2)]))

# --- reductions -------------------------------------------------------------------------------------------------------------

AXES = [{}, {"axis": 0}, {"axis": -1}, {"axis": (0, 2)}, {"axis": (-1, 1), "keepdims": True}, {"axis": None, "keepdims": True},
        {"axis": ()}, {"axis": 1, "where": B(2, 3, 4)}, {"where": B(3, 1)}]
SCANS = [{}, {"axis": 0}, {"axis": 1}, {"axis": -1}]
sample(np.sum, np.prod)(*over(*AXES, {"initial": 2.0}, {"axis": 1, "initial": 2.0, "keepdims": True})(A(2, 3, 4)), call(A()),
                        call(A(3)), call(A(3), 0), call(A(0)), call(A(0, 3), axis=0), call(A(3, 0), axis=-1),
                        call(Z(2, 3), axis=0), call(A(2, 3), dtype=complex))
sample(np.mean, np.var, np.std)(*over(*AXES[:6], *AXES[7:])(A(2, 3, 4)), call(P()), call(A(3)), call(A(3), 0),
                                call(Z(2, 3), axis=0))
sample(np.var, np.std)(*over({"ddof": 1}, {"axis": 1, "ddof": 2}, {"axis": 0, "ddof": 1, "keepdims": True}, {"correction": 1},
                             {"mean": np.full(1, 0.3)}, {"axis": 1, "where": B(2, 3, 1) | True, "ddof": 1})(A(2, 3, 4)))
sample(np.max, np.min)(*over(*AXES[:7], {"axis": -1, "initial": 0.31},
                             {"axis": 1, "where": B(2, 3, 4), "initial": 0.33})(D(2, 3, 4)), call(D()), call(D(3)),
                       call(D(0, 3), axis=-1, initial=1.0), call(D(0), initial=1.0))
sample(np.cumsum, np.cumprod)(*over(*SCANS)(A(2, 3)), call(A(4)), call(A(1)), call(A()), call(A(0)), call(A(2, 3, 4), axis=-2),
                              call(Z(3)), call(A(2, 3), dtype=complex))
sample(np.sort)(call(D(4)), call(D(2, 3)), call(D(2, 3), 0), call(D(2, 3), axis=None), call(D(2, 3, 4), axis=1),
                call(D(4), kind="stable"), call(D(0)))
sample(reordered)(*(call(x, np.argsort(x, axis), axis) for x, axis in ((D(3), -1), (D(2, 3), 0), (D(2, 3), None))))
sample(put_back)(call(A(3), np.array([2, 0, 1]), 0, (3,)), call(A(2, 3), np.argsort(D(2, 3), 0), 0, (2, 3)),
                 call(A(6), np.array([5, 0, 2, 1, 4, 3]), None, (2, 3)))
sample(np.take_along_axis)(call(A(2, 3), np.array([[0, 2, 2], [1, 0, 1]]), 1), call(A(2, 3), np.array([[1, 0, 1]]), axis=0),
                           call(A(2, 3), np.array([5, 0, 0]), None),
                           call(A(2, 3, 4), np.array([[[0], [2]], [[1], [1]]])[..., :1], axis=1),
                           *since("2.3.0", call(A(4), np.array([3, 0]))))
sample(np.diff)(call(A(4)), call(A(2, 3)), call(A(2, 3), 1, 0), call(A(2, 4), n=2), call(A(4), 0), call(A(2, 3), prepend=A(2, 1)),
                call(A(2, 3), axis=0, append=1.0), call(A(1)), call(Z(3)))

# --- products and linear algebra --------------------------------------------------------------------------------------------

PRODUCTS = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((3, 3), (3, 3))]
STACKS = [((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 2)), ((4, 1, 2, 3), (2, 3, 2)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2)),
          ((2, 3, 4), (2, 4, 1)), ((2, 0), (0, 3)), ((0, 3), (3, 2))]
sample(np.matmul, np.dot)(*(call(A(*s), A(*t)) for s, t in PRODUCTS), call(Z(2, 3), Z(3)), call(Z(2, 3), A(3, 2)),
                          call(A(2, 3), Fixed(A(3))), call(Fixed(A(2, 3)), A(3)))
sample(np.matmul)(*(call(A(*s), A(*t)) for s, t in STACKS), call(np.ones((1, 3)), A(4, 3, 1)))
sample(np.dot)(call(A(), A()), call(A(), A(3)), call(A(2, 3), A()), call(A(5, 2, 3), A(3)), call(A(2, 3), A(4, 3, 2)),
               call(A(2, 2, 3), A(3, 4)))
sample(np.inner)(call(A(3), A(3)), call(A(), A(3)), call(A(), A(2, 3)), call(A(2, 3), A()), call(A(2, 3), A(3)), call(A(2, 3), A(4, 3)),
                 call(A(2, 2, 3), A(3)), call(Z(3), Z(3)))
sample(np.outer)(call(A(3), A(2)), call(A(), A(2)), call(A(2, 2), A(3)), call(Z(3), Z(2)), call(A(0), A(2)))
sample(np.tensordot)(call(A(2, 3, 4), A(3, 4, 2)), call(A(2, 3), A(3, 4), 1), call(A(2, 3), A(4), 0),
                     call(A(2, 3, 4), A(4, 2), axes=([2, 0], [0, 1])), call(A(2, 3), A(2, 3), axes=((0, 1), (0, 1))),
                     call(A(2, 3), A(4, 3), axes=(-1, -1)))
sample(np.kron)(call(A(2), A(3)), call(A(2, 3), A(3, 2)), call(A(2), A(3, 2)), call(A(2, 3, 2), A(2)), call(A(), A(3)))
sample(np.vdot)(call(A(3), A(3)), call(A(2, 3), A(2, 3)), call(Z(3), Z(3)), call(A(3), Z(3)), call(A(), A()))
sample(np.einsum)(call("ij,jk->ik", A(2, 3), A(3, 4)), call("ij,jk", A(2, 3), A(3, 4)), call("i,i->", A(3), A(3)),
                  call("ij->ji", A(2, 3)), call("ii->", A(3, 3)), call("ii->i", A(3, 3)), call("ij->", A(2, 3)),
                  call("ij->j", A(2, 3)), call("...ij,...jk->...ik", A(2, 2, 3), A(3, 2)), call("...i->...", A(2, 3)),
                  call("i,j,k->ijk", A(2), A(3), A(4)), call("ij,ij->ij", A(2, 3), A(2, 3)),
                  call("b i j , j -> b i", A(2, 2, 3), A(3)), call("iij->j", A(2, 2, 3)), call("ij,k->k", A(2, 3), A(2)),
                  call("bi,bi->b", Z(2, 3), A(2, 3)), call("iii->i", A(3, 3, 3)),
                  call("ij,jk,kl->il", A(2, 3), A(3, 2), A(2, 2), optimize=True), call(",i->i", A(), A(3)), call("ji", A(2, 3)),
                  call("ii,ij->i", A(3, 3), A(3, 2)), call("...,...->...", A(2, 3), A(3)), call("ij,jk->ik", A(1, 3), A(3, 3)))
sample(np.einsum)(Sample((A(2, 3), [0, 1], A(3, 4), [1, 2], [0, 2])), Sample((A(2, 3), [0, 1], A(3), [1])))
sample(np.linalg.solve)(call(M(3, 3), A(3)), call(M(3, 3), A(3, 2)), call(M(2, 3, 3), A(2, 3, 1)), call(M(2, 3, 3), A(3, 2)),
                        call(M(3, 3), A(2, 3, 2)), call(M(3, 3), Fixed(A(3))), call(Fixed(M(3, 3)), A(3)),
                        call(M(3, 3) + 1j * A(3, 3), A(3)), call(M(2, 3, 3), A(3)), call(M(1, 1), A(1)), call(M(3, 3), A(3, 3)))
sample(np.linalg.inv)(call(M(3, 3)), call(M(2, 3, 3)), call(M(1, 1)), call(M(2, 2) + 1j * A(2, 2)), call(M(0, 0)))
sample(cofactor_matrix)(call(M(3, 3)), call(M(2, 3, 3)), call(M(2, 2) + 1j * A(2, 2)))
sample(np.linalg.det)(call(M(3, 3)), call(M(2, 3, 3)), call(M(1, 1)), call(M(2, 2) + 1j * A(2, 2)),
                      call(np.outer(A(3), A(3)) * 0.0 + np.diag([1.0, 2.0, 0.0])), call(np.zeros((2, 2))))
sample(np.linalg.norm)(call(A(3)), call(A(2, 3)), call(A(2, 3, 4)),
                       *over(*({"ord": o} for o in (1, 2, 3, np.inf, -np.inf, 0, 0.5, -1, None)))(D(4)),
                       *over(*({"ord": o, "axis": (0, 1)} for o in (1, -1, np.inf, -np.inf, "fro", None)),
                             *({"axis": a, "ord": o} for a in (0, -1) for o in (1, 2, 3, np.inf)), {"keepdims": True},
                             {"axis": (-1, 0), "ord": 1, "keepdims": True}, {"axis": 1, "keepdims": True})(D(3, 4)),
                       call(A(2, 3, 4), axis=(0, 2)), call(Z(3)), call(Z(2, 3), axis=1), call(Z(3), 1),
                       call(A(2, 3, 2), fixed(np.inf), (2, 0)), call(A(2, 3), axis=(0,)))
APART = np.diag([4.0, 2.5, 1.0]) + np.arange(9.0).reshape(3, 3) * 0.05  # its singular values are well apart
sample(np.linalg.norm)(*over({"ord": 2}, {"ord": -2}, {"ord": "nuc"})(APART),
                       *over({"ord": 2, "axis": (0, 2), "keepdims": True})(np.stack([APART, 1.0 - APART], axis=1)))
sample(variance, deviation)(call(A(3)), call(A(2, 3), axis=0, ddof=1), call(A(2, 3), axis=(0, 1), keepdims=True))
sample(euclidean)(call(A(3), 0, False), call(A(2, 3), (0, 1), True), call(A(2, 3, 4), (0, 2), False), call(Z(2, 3), -1, True))
V = np.array([0.5, -1.5, 2.5])
SPARSE = scipy.sparse.csr_array(np.arange(12.0).reshape(4, 3) % 5)
sample(times_sparse)(call(V, SPARSE), call(np.outer(V, V[:2]), SPARSE), call(V * 1j, SPARSE))

# --- indexing and casts -----------------------------------------------------------------------------------------------------

INDICES = [0, -1, slice(None), slice(1, None), slice(None, None, -1), Ellipsis, None, (0, 1), (slice(None), 1), (Ellipsis, 0),
           (0, Ellipsis), (None, slice(0, 2), None), (slice(None), slice(0, 2), 1), np.array([0, 1, 1]),
           (slice(None), np.array([0, 2])), (np.array([0, 1]), slice(None), np.array([1, 3])),
           (np.array([0, 1]), np.array([2, 2])), (Ellipsis, np.array([1, 1, 0])), B(2, 3, 4), B(2, 3), (slice(None), B(3)),
           (np.array([[0], [1]]), np.array([[0, 2]])), [0, 1], (1, slice(None), np.array([0, 1, 2])),
           (slice(None), np.array([[0, 1], [2, 2]]), slice(0, 3)), (np.array([0, 1]), None, np.array([0, 2])), slice(0, 0),
           (0, 0, 0), (np.array([], int),), (np.array([0, 1]), Ellipsis, np.array([0, 1]))]
sample(getitem)(*(Sample((A(2, 3, 4), Fixed(index))) for index in INDICES), call(A(3), Fixed(np.int64(1))),
                call(A(3), Fixed(np.array([True, False, True]))), call(Z(2, 3), Fixed((0,))),
                Sample((np.asarray(A()), Fixed(()))), call(A(3), Fixed(np.array([0, 0, 0]))))
LIKE = Abstract(np.zeros((2, 3, 4)))
sample(scatter)(*(Sample((np.asarray(A(*np.zeros((2, 3, 4))[index].shape)), Fixed(index),
                          LIKE)) for index in INDICES if index is not None))
T, IM = ((np.transpose, (), {}),), ((np.imag, (), {}),)
sample(updated)(*(Sample((A(2, 3, 4), np.asarray(A(*np.zeros((2, 3, 4))[index].shape)), Fixed(index)))
                  for index in INDICES if index is not None),
                call(A(2, 3, 4), A(), Fixed((0, slice(1, None)))), call(A(2, 3), A(3), Fixed(...)), call(A(3), A(1, 2), Fixed([0, 2])),
                call(A(2, 3), A(2), Fixed(1), Fixed(T)), call(Z(3), Z(2), Fixed(slice(0, 2))), call(A(2, 3), A(2), Fixed(np.array([4, 4])), Fixed(((np.ravel, (), {}),))),
                call(np.asarray(A()), A(), Fixed(())), call(Z(2, 3), A(3), Fixed(1), Fixed(IM)))
unary(A, restate, complex_too=True)
unary(lambda *shape: 0.7, number)
sample(defined)(call(A(2, 3), Fixed(2), Fixed("of no elements")))
sample(cast)(Sample((A(3), complex)), Sample((A(3), float)), Sample((A(3), np.float32), casts=True),
             Sample((A().astype(np.float32), np.float64)))

# --- parts of rules ---------------------------------------------------------------------------------------------------------

binary(A, A, ratio, softmax_share)
sample(ratio)(call(Z(3), A(3)))
sample(difference)(call(A(4), 0), call(A(2, 3), -1), call(A(2, 3, 2), 1), call(Z(3), 0), call(A(1), 0), call(A(2, 0), 1))
sample(added)(call(A(4), A(3), Fixed(np.array([0, 2, 0]))), call(A(2, 3), A(2), Fixed((slice(None), 1))), call(A(3), A(), Fixed(np.array([1, 1]))))
sample(scattered_difference)(call(A(4), 0), call(A(2, 3), -1), call(A(2, 3, 2), 1), call(Z(3), 0))
unary(A, one_minus_square, root_above_one)
sample(turn)(call(A(), A()), call(A(3), A(3)), call(A(2, 3), A(3)), call(A(0), A(0)))
sample(copied, as_plain_array)(call(A()), call(A(3)), call(A(2, 3)), call(A(2, 0)), call(Z(2)))
sample(in_order)(call(A(2, 3), "F"), call(A(2, 3), "C"), call(Z(2, 2), "F"))

# --- without derivative -----------------------------------------------------------------------------------------------------

for fn in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.logical_and, np.logical_or,
           np.logical_xor, np.heaviside, np.floor_divide):
    CONSTANTS[fn] = [call(A(3), A(3)), call(A(2, 3), A(3)), call(A(), A(3)), call(A(3), 0.5), call(float(A()), float(A()))]
for fn in (np.ceil, np.floor, np.trunc, np.rint, np.spacing, np.logical_not, np.isfinite, np.isinf, np.isnan, np.signbit, np.sign,
           np.round, np.shape, np.ndim, np.size, np.isreal,
           np.iscomplex, np.iscomplexobj, np.isrealobj, np.array2string, np.array_repr, np.array_str, exponent, integral_part, stopped):
    CONSTANTS[fn] = [call(A(2, 3)), call(A(3))]
for fn in (larger_share, fmax_share):
    CONSTANTS[fn] = [call(A(3), A(3), A(3)), call(A(2, 3), A(2, 3), A(3)), call(A(2, 3), A(3), 0.5)]
for fn in (np.argsort, np.argmax, np.argmin, np.all, np.any, np.count_nonzero):
    CONSTANTS[fn] = [call(A(3)), call(A(2, 3), axis=0)]
CONSTANTS[last_of] = [call(fixed(np.array([0, 2, 2])), A(3), 4)]
CONSTANTS[np.nonzero] = [call(A(2, 3))]
CONSTANTS[np.argpartition] = [call(A(4), 2)]
CONSTANTS[np.searchsorted] = [call(XP, P(3)), call(fixed(XP), P(3), side="right")]
CONSTANTS[np.isclose] = CONSTANTS[np.allclose] = CONSTANTS[np.array_equal] = [call(A(3), A(3)), call(A(3), Fixed(np.zeros(3)))]
CONSTANTS[np.result_type] = [call(A(3), np.float32), call(A(3), Z(3))]
CONSTANTS[np.may_share_memory] = CONSTANTS[np.shares_memory] = [call(A(3), Fixed(np.zeros(3)))]
CONSTANTS[discretize] = [call(A(3), Fixed(np.dtype(int))), call(A(3), Fixed(np.dtype(bool)))]

import samples_more  # noqa: E402, F401  (enters its samples)
