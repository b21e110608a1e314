"""Products and linear algebra. Stacks of matrices everywhere, as in NumPy; sources of formulas: Giles 2008 (NA-08/01)."""

import math
import operator
import string
from contextlib import suppress
from functools import lru_cache

from numpy.lib.array_utils import normalize_axis_tuple

from ..support.ufunc_loops import ufunc_name
from .batching import dot_form, einsum_form, matmul_form, outer_form, solve_form
from .cotangents import is_symbolic
from .inner import InnerLoop
from .kinds import bilinear, composite, explicit, is_complex, multilinear, ndim_of, primitive, restore_axes, shape_of, unbroadcast
from .names import np
from .primitives import ratio
from .shapes import by_numpy


def mT(a):
    return a.T if type(a) is np.ndarray and a.ndim == 2 else np.swapaxes(a, -1, -2)


# --- products ---------------------------------------------------------------------------------------------------------------


def dense(g):
    """Return a cotangent that BLAS takes: not broadcast, as of a sum."""
    return np.ascontiguousarray(g) if type(g) is np.ndarray and 0 in g.strides else g


def as_matrix_cotangent(g, a, b):
    """Return the cotangent of a matmul with the axes that vectors among the factors lack."""
    g = dense(g)
    if ndim_of(b) == 1:
        g = np.expand_dims(g, -1)
    return np.expand_dims(g, -2) if ndim_of(a) == 1 else g


def pulled_to_first(g, a, b, axes):
    """Return the cotangent of the first factor of a matmul, given how many axes the factors have."""
    if axes in ((2, 2), (1, 2)):
        return np.matmul(dense(g), mT(b))
    if axes == (1, 1):
        return g * b
    if axes == (2, 1):
        return np.matmul(np.reshape(dense(g), (-1, 1)), np.reshape(b, (1, -1)))
    g = as_matrix_cotangent(g, a, b)
    back = np.matmul(g, mT(np.reshape(b, (-1, 1)) if axes[1] == 1 else b))
    return unbroadcast(back[..., 0, :] if axes[0] == 1 else back, a)


def pulled_to_second(g, a, b, axes):
    """Return the cotangent of the second factor of a matmul, given how many axes the factors have."""
    if axes in ((2, 2), (2, 1)):
        return np.matmul(mT(a), dense(g))
    if axes == (1, 1):
        return g * a
    if axes == (1, 2):
        return np.matmul(np.reshape(a, (-1, 1)), np.reshape(dense(g), (1, -1)))
    g = as_matrix_cotangent(g, a, b)
    back = np.matmul(mT(np.reshape(a, (1, -1)) if axes[0] == 1 else a), g)
    return unbroadcast(back[..., 0] if axes[1] == 1 else back, b)


def dot_first(g, a, b):
    axes = n, m = ndim_of(a), ndim_of(b)
    if n and 0 < m <= 2:
        return pulled_to_first(g, a, b, axes)
    if n == 0 or m == 0:
        return unbroadcast(g * b, a)
    return np.tensordot(g, b, (list(range(n - 1, ndim_of(g))), [i for i in range(m) if i != m - 2]))


def dot_second(g, a, b):
    axes = n, m = ndim_of(a), ndim_of(b)
    if n and 0 < m <= 2:
        return pulled_to_second(g, a, b, axes)
    if n == 0 or m == 0:
        return unbroadcast(g * a, b)
    front = list(range(n - 1))
    return np.moveaxis(np.tensordot(a, g, (front, front)), 0, -2)


def beyond_matrices(a, b, out=None):
    """Return whether NumPy's product of these arrays is no product of matrices, or one whose zeros may have other signs."""
    return max(ndim_of(a), ndim_of(b)) > 2 or is_complex(a) or is_complex(b)


def inner(a, b):
    return np.dot(a, mT(b) if ndim_of(b) > 1 and ndim_of(a) else b)


def kron(a, b):
    ndim = max(ndim_of(a), ndim_of(b))
    shape_a, shape_b = ((1,) * (ndim - ndim_of(x)) + shape_of(x) for x in (a, b))
    a = np.reshape(a, tuple(m for n in shape_a for m in (n, 1)))
    b = np.reshape(b, tuple(m for n in shape_b for m in (1, n)))
    return np.reshape(a * b, tuple(n * m for n, m in zip(shape_a, shape_b, strict=True)))


# --- einsum -----------------------------------------------------------------------------------------------------------------


def canonical_einsum(args, kwargs):
    """Turn any spelling of einsum into ``einsum(*operands, subscripts=...)``.

    The subscripts are explicit, without ellipsis, and no operand repeats a letter: repeated ones become diagonals.
    """
    if "subscripts" in kwargs:
        return args, kwargs
    if isinstance(args[0], str):
        subscripts, operands = args[0].replace(" ", ""), list(args[1:])
    else:
        operands = list(args[: len(args) // 2 * 2 : 2])
        terms = [sublist(s) for s in args[1 : len(args) // 2 * 2 : 2]]
        subscripts = ",".join(terms) + ("->" + sublist(args[-1]) if len(args) % 2 else "")
    terms, output = explicit_subscripts(subscripts, tuple(map(ndim_of, operands)))
    terms = list(terms)
    for k, term in enumerate(terms):
        while len(set(term)) < len(term):
            letter = next(c for c in term if term.count(c) > 1)
            i, j = term.index(letter), term.rindex(letter)
            first, last = shape_of(operands[k])[i], shape_of(operands[k])[j]
            if first != last:
                raise ValueError(f"numpy.einsum: in operand {k} the axes of {letter!r} have different lengths, {first} and {last}")
            operands[k] = np.diagonal(operands[k], 0, i, j)
            term = "".join(c for n, c in enumerate(term) if n not in (i, j)) + letter
        terms[k] = term
    options = {key: value for key, value in kwargs.items() if value is not None}
    return tuple(operands), {**options, "subscripts": ",".join(terms) + "->" + output}


@lru_cache
def explicit_subscripts(subscripts, ndims):
    """Return the terms of the operands and of the output, without ellipsis."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"numpy.einsum: {subscripts!r} names {len(terms)} operands, {len(ndims)} were given")
    free = [c for c in string.ascii_letters if c not in subscripts]
    spare = "".join(free[: max(ndims)])
    widths = [ndim - len(t.replace("...", "")) if "..." in t else 0 for t, ndim in zip(terms, ndims, strict=True)]
    terms = [t.replace("...", spare[len(spare) - w :] if w else "") for t, w in zip(terms, widths, strict=True)]
    widest = spare[len(spare) - max(widths) :] if max(widths) else ""
    if arrow:
        output = output.replace("...", widest)
    else:
        letters = "".join(terms)
        output = widest + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in widest))
    return tuple(terms), output


LETTERS = string.ascii_uppercase + string.ascii_lowercase  # as NumPy has them


def sublist(indices):
    return "".join("..." if i is Ellipsis else LETTERS[i] for i in indices)


def einsum_call(*operands, subscripts, **options):
    return np.einsum(subscripts, *operands, **options)


def einsum_view(x, **options):
    """Return a view that einsum makes of one operand, which can be written, also where `np.diagonal` stands in it."""
    view = einsum_call(x, **options)
    if type(view) is np.ndarray and np.may_share_memory(view, x):
        with suppress(ValueError):  # nor can x be written
            view.flags.writeable = True
    return view


def einsum_transpose(i, g, *operands, subscripts, order="K", **options):
    swapped, alone = swapped_subscripts(subscripts, i)
    others = [x for k, x in enumerate(operands) if k != i]
    if alone:
        shape = shape_of(operands[i])
        others.append(np.ones([shape[axis] for axis in alone]))
    return unbroadcast(np.einsum(swapped, g, *others, **options), operands[i])


@lru_cache
def swapped_subscripts(subscripts, i):
    """Return the subscripts that pull a cotangent back to operand i, and its axes that are summed in it alone.

    The cotangent is constant along those: there is one more operand, of ones.
    """
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")
    others = terms[:i] + terms[i + 1 :]
    alone = [axis for axis, c in enumerate(terms[i]) if c not in {*output, *"".join(others)}]
    ones = ["".join(terms[i][axis] for axis in alone)] if alone else []
    return ",".join([output, *others, *ones]) + "->" + terms[i], alone


# --- solving ----------------------------------------------------------------------------------------------------------------


def solve_columns(a, b, like):
    """Return ``solve(a, b)`` where each vector of `b` is a column if `like` is a vector (NumPy takes a 2-D `b` for a matrix)."""
    return np.linalg.solve(a, b[..., None])[..., 0] if ndim_of(like) == 1 else np.linalg.solve(a, b)


def solve_first_jvp(t, ans, a, b):
    if ndim_of(b) == 1:
        return -np.linalg.solve(a, np.matmul(t, ans[..., None]))[..., 0]
    return -np.linalg.solve(a, np.matmul(t, ans))


def solve_first_vjp(g, ans, a, b):
    back = solve_columns(mT(a), g, b)
    if ndim_of(b) == 1:
        return unbroadcast(-back[..., :, None] * ans[..., None, :], a)
    return unbroadcast(-np.matmul(back, mT(ans)), a)


@primitive
def cofactor_matrix(a):
    """Return the cofactors of the elements of a."""
    return cofactors(np.linalg.det(a), a)


def cofactor_matrix_jvp(t, ans, a):
    """Return the derivative of det(a) inv(a).T, where a is regular."""
    inverse = np.linalg.inv(a)
    return ans * np.expand_dims(np.sum(mT(inverse) * t, axis=(-1, -2)), (-1, -2)) - np.matmul(np.matmul(ans, mT(t)), mT(inverse))


def cofactor_matrix_vjp(g, ans, a):
    back = mT(np.linalg.inv(a))
    return np.expand_dims(np.sum(g * ans, axis=(-1, -2)), (-1, -2)) * back - np.matmul(np.matmul(back, mT(g)), ans)


def cofactors(ans, a):
    """Return the derivative of det(a) by the elements of a; by minors where a matrix is singular, or nearly."""
    n = shape_of(a)[-1]
    if n < 2:
        return np.ones_like(a)
    if is_symbolic(a):
        return small_cofactors(a) if n < 4 else cofactor_matrix(a)
    if not np.any(loses_digits(ans, a)):
        return np.expand_dims(ans, (-1, -2)) * mT(np.linalg.inv(a))
    if n < 4:
        return small_cofactors(a)
    rows = []
    for i in range(n):
        others = [k for k in range(n) if k != i]
        minors = [np.linalg.det(a[..., others, :][..., [k for k in range(n) if k != j]]) * (-1.0) ** (i + j) for j in range(n)]
        rows.append(np.stack(minors, axis=-1))
    return np.stack(rows, axis=-2)


def regular_cofactors(a):
    """Return the cofactors of a matrix by its inverse, which raises where the determinant is zero."""
    if shape_of(a)[-1] < 2:
        return np.ones_like(a)
    det = np.expand_dims(np.linalg.det(a), (-1, -2))
    return det * mT(np.linalg.inv(np.where(np.equal(det, 0), 0.0, a)))


def small_cofactors(a):
    """Return the cofactors of matrices of two or three rows, which are polynomials of their elements."""
    n = shape_of(a)[-1]
    if n == 2:
        minors = [[a[..., 1, 1], -a[..., 1, 0]], [-a[..., 0, 1], a[..., 0, 0]]]
    else:  # of the rows and columns after the element's, in a circle
        pairs = [((k + 1) % 3, (k + 2) % 3) for k in range(3)]
        minors = [[a[..., i, k] * a[..., j, m] - a[..., i, m] * a[..., j, k] for k, m in pairs] for i, j in pairs]
    return np.stack([np.stack(row, axis=-1) for row in minors], axis=-2)


JUDGED_ORDER = 16  # the bound below nears 1 with the order (0.18 at 16, 0.42 at 32), and holds of more and more regular matrices


def loses_digits(ans, a):
    """Return where cofactors by way of the inverse are wrong: of singular matrices; of nearly singular ones where `a` is traced.

    Then they are differentiated once more, which loses the digits that the inverse has lost.
    """
    n = shape_of(a)[-1]
    if type(a) is np.ndarray or n > JUDGED_ORDER:
        return np.equal(ans, 0)
    bound = (1e-6 if n < 4 else 1e-12) ** (1.0 / n)
    return np.abs(bottom_value(ans)) ** (1.0 / n) <= bound * np.max(np.abs(bottom_value(a)), axis=(-1, -2))


def bottom_value(x):
    """Return the value of `x` below all derivatives."""
    while hasattr(x, "level"):
        x._refresh()
        x = x.primal
    return x


# --- norms ------------------------------------------------------------------------------------------------------------------


def square_of(x):
    return np.square(np.real(x)) + np.square(np.imag(x)) if np.iscomplexobj(x) else x * x


@primitive
def euclidean(x, axis, keepdims):
    """Return the root of the sum of squares over one axis, or a tuple of them."""
    if axis == tuple(range(ndim_of(x))) or (ndim_of(x) == 1 and axis != ()):
        return np.linalg.norm(x, keepdims=keepdims)
    return np.sqrt(np.sum(square_of(x), axis=axis, keepdims=keepdims))


def euclidean_jvp(t, ans, x, axis, keepdims):
    slope = np.real(np.conjugate(x) * t) if is_complex(x) else x * t
    return ratio(np.sum(slope, axis=axis, keepdims=keepdims), ans)


def euclidean_vjp(g, ans, x, axis, keepdims):
    slope = ratio(g, ans)
    slope = slope if issubclass(type(slope), float) else restore_axes(slope, x, axis)
    return slope * (np.conjugate(x) if is_complex(x) else x)


def vector_norm(x, ord, axis, keepdims):
    if ord is None or ord == 2:
        return euclidean(x, axis, keepdims)
    size = np.abs(x)
    if ord == np.inf:
        return np.max(size, axis=axis, keepdims=keepdims, **({} if size.size else {"initial": 0.0}))
    if ord == -np.inf:
        return np.min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum(np.where(np.equal(x, 0), 0.0, np.ones_like(size)), axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    total = np.sum(np.power(size, ord), axis=axis, keepdims=keepdims)
    zero, infinite = np.equal(total, 0), np.isinf(total)
    at_zero, at_infinity = (0.0, np.inf) if ord > 0 else (np.inf, 0.0)
    root = np.power(np.where(np.logical_or(zero, infinite), 1.0, total), 1.0 / ord)
    return np.where(zero, at_zero, np.where(infinite, at_infinity, root))[()]  # norm'(0) = 0


def norm(x, ord=None, axis=None, keepdims=False):
    ndim = ndim_of(x)
    if axis is None and (ord is None or ndim == 1 or (ord in ("fro", "f") and ndim == 2) or (ord == 2 and ndim == 1)):
        axes = tuple(range(ndim))
        ord = 2 if ord in (None, "fro", "f") else ord
        return vector_norm(x, ord, axes, keepdims)
    axes = tuple(range(ndim)) if axis is None else tuple(axis) if isinstance(axis, tuple | list) else (operator.index(axis),)
    if len(axes) == 1:
        return vector_norm(x, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError(f"numpy.linalg.norm: axis={axis!r} of an array of shape {shape_of(x)}: give one axis or two")
    if ord in (None, "fro", "f"):
        return vector_norm(x, 2, axes, keepdims)
    row, column = normalize_axis_tuple(axes, ndim)
    if ord in (1, -1, np.inf, -np.inf):
        first, second = (row, column) if ord in (1, -1) else (column, row)
        sums = np.sum(np.abs(x), axis=first, keepdims=True)
        ans = (np.max if ord > 0 else np.min)(sums, axis=second, keepdims=True)
    elif ord in (2, -2, "nuc"):
        values = np.linalg.svd(np.moveaxis(x, (row, column), (-2, -1)), compute_uv=False)
        values = np.where(np.equal(values, 0), 0.0, values)  # norm'(0) = 0
        ans = np.sum(values, axis=-1) if ord == "nuc" else (np.max if ord == 2 else np.min)(values, axis=-1)
        return np.expand_dims(ans, axes) if keepdims else ans
    else:
        raise ValueError(f"numpy.linalg.norm: ord={ord!r} is no norm of matrices")
    return ans if keepdims else np.squeeze(ans, axis=(row, column))[()]


# --- the ufuncs underneath --------------------------------------------------------------------------------------------------


def lapack(name, types, of_reals=None, **options):
    """Return the `InnerLoop` of a LAPACK ufunc, which computes in double precision: `types` are those of complex matrices, and of
    real ones those in small letters, if nothing else is said.

    The name may be a function of the arguments, or of what it returns the second one, of older versions of NumPy.
    """

    def inner(*args, **kwargs):
        names = name(*args, **kwargs) if callable(name) else name
        names = (names,) if type(names) is str else names
        operands = args[: types.index("->")]
        complex_ones = any(map(is_complex, operands))
        return InnerLoop(ufunc_name(*names), operands, types if complex_ones else of_reals or types.lower(), **options)

    return inner


ASKED_PRODUCTS = 1 << 27  # multiplications of one whose inner loop is asked for its bits, which takes another product (4 ms)


def of_matrices(a, b):
    """Return the `InnerLoop` of a product of matrices."""
    if math.prod(shape_of(a)) * (shape_of(b)[-1] if ndim_of(b) > 1 else 1) > ASKED_PRODUCTS:
        raise LookupError("a call of Python takes no time beside them")
    name = ("vecdot", "vecmat")[ndim_of(b) > 1] if ndim_of(a) == 1 else ("matvec", "matmul")[ndim_of(b) > 1]
    return InnerLoop(f"numpy.{name}", (a, b))


def of_dotted(a, b):
    """Return the `InnerLoop` of dot; of numbers, or of a stack on the right, it is not a product of matrices."""
    if not ndim_of(a) or ndim_of(b) not in (1, 2):
        raise LookupError("no ufunc computes that")
    return of_matrices(a, b)


def log_slope(ans, a):
    """Return the derivative of log(det(a)) by the elements of a; NaN where a is singular."""
    if type(a) is np.ndarray and a.ndim == 2 and ans[0]:
        return np.linalg.inv(a).T
    singular = np.equal(ans[0], 0)[..., None, None]
    return np.where(singular, np.nan, mT(np.linalg.inv(np.where(singular, np.eye(shape_of(a)[-1], dtype=bool), a))))


def slogdet_jvp(t, ans, a):
    trace = np.sum(log_slope(ans, a) * t, axis=(-1, -2))
    return (1j * np.imag(trace) * ans[0] if np.iscomplexobj(a) else np.zeros_like(trace)), np.real(trace)


def slogdet_vjp(g, ans, a):
    weight = g[1] + 1j * np.imag(g[0] * ans[0]) if np.iscomplexobj(a) else g[1]
    return (np.expand_dims(weight, (-1, -2)) if shape_of(weight) else weight) * log_slope(ans, a)


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
bilinear(np.matmul,      lambda g, a, b: pulled_to_first(g, a, b, (ndim_of(a), ndim_of(b))),
                         lambda g, a, b: pulled_to_second(g, a, b, (ndim_of(a), ndim_of(b))),
                         pattern="product", batch=matmul_form, blocks="matrix_product", lower="matmul", inner=of_matrices,
                         operator="matmul", selected="product")
bilinear(np.dot,         dot_first, dot_second, pattern="dot", batch=dot_form, blocks="dot_product", lower="dot", inner=of_dotted,
                         selected="product")
bilinear(np.outer,       lambda g, a, b: np.reshape(np.dot(g, np.ravel(b)), shape_of(a)),
                         lambda g, a, b: np.reshape(np.dot(np.ravel(a), g), shape_of(b)), pattern="outer", batch=outer_form,
                         blocks="outer", lower="outer")
multilinear(np.einsum,   einsum_transpose, call=einsum_call, canonical=canonical_einsum, view="alone", viewed=einsum_view,
                         pattern="einsum", batch=einsum_form, blocks="einsum", lower="einsum", selected="contracted")
composite(np.inner,      inner, with_numpy_value=beyond_matrices)
composite(np.tensordot,  by_numpy(np.tensordot), with_numpy_value=lambda a, b, axes=2: is_complex(a) or is_complex(b))
composite(np.kron,       kron)
composite(np.vdot,       lambda a, b: np.dot(np.conjugate(np.ravel(a)), np.ravel(b)), with_numpy_value=beyond_matrices)
explicit(np.linalg.solve, (solve_first_jvp, lambda t, ans, a, b: np.linalg.solve(a, t)),
         (solve_first_vjp, lambda g, ans, a, b: np.reshape(unbroadcast(solve_columns(mT(a), g, b), b), shape_of(b))),
         raises=True, axes=(-2, -1), pattern="solved", batch=solve_form, lower="solve",
         inner=lapack(lambda a, b: "solve1" if ndim_of(b) == 1 else "solve", "DD->D"))
explicit(np.linalg.inv,   lambda t, ans, a: -np.matmul(ans, np.matmul(t, ans)),
         lambda g, ans, a: -np.matmul(mT(ans), np.matmul(g, mT(ans))),
         raises=True, axes=(-2, -1), lower="inverse", inner=lapack("inv", "D->D"))
explicit(np.linalg.det,   lambda t, ans, a: np.sum(cofactors(ans, a) * t, axis=(-1, -2)),
         lambda g, ans, a: np.expand_dims(g, (-1, -2)) * cofactors(ans, a), axes=(-2, -1), lower="determinant", inner=lapack("det", "D->D"))
explicit(np.linalg.slogdet, slogdet_jvp, slogdet_vjp, axes=(-2, -1), pattern="sign_and_logarithm", lower="sign_and_logarithm",
         inner=lapack("slogdet", "D->Dd"))
explicit(cofactor_matrix, cofactor_matrix_jvp, cofactor_matrix_vjp, axes=(-2, -1), inlined=regular_cofactors)
explicit(euclidean,       euclidean_jvp, euclidean_vjp, axes="axis", blocks="root_of_squares", lower="norm",
                          skips_zeros=True)  # norm'(0) = 0
composite(np.linalg.norm, norm, with_numpy_value=lambda x, *how, **named: bool(how or named))  # norm(x) is one call
# fmt: on
