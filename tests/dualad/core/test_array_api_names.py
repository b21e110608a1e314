"""Every function that the array API standard (2024.12) names: called through the namespace of a traced value it has NumPy's bits."""

from functools import reduce

import numpy as np
import pytest

import checkpoint
import dualad
from dualad.core.standins import StandIn
from dualad.graph.trace import TraceError

SPREAD = np.array([[0.3, 0.7, 0.15], [0.4, 0.6, 0.2], [0.55, 0.05, 0.35]])
MATRIX = SPREAD @ SPREAD.T + np.eye(3)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-300, 2.5, 1e300])

UNARY = (
    "abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10 log1p log2 logical_not "
    "negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc"
)
BINARY = (
    "add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or "
    "logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract"
)
REDUCED = "all any argmax argmin argsort count_nonzero cumulative_prod cumulative_sum diff max mean min prod sort std sum var"
OF_MATRICES = (
    "cholesky det eigh eigvalsh inv matrix_norm matrix_rank pinv qr slogdet svd svdvals diagonal matrix_transpose trace vector_norm"
)
FOURIER = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftshift ifftshift"
#: with x and y of one shape: what the standard's other functions are called with
CALLS = {
    "asarray": lambda xp, x, y: [xp.asarray(x), xp.asarray(x, copy=True), xp.asarray([x[0], y[1]]), xp.asarray(x, dtype=xp.complex128)],
    "astype": lambda xp, x, y: [xp.astype(x, x.real.dtype) if xp.isdtype(x.dtype, "real floating") else x, xp.astype(x, xp.complex64)],
    "broadcast_arrays": lambda xp, x, y: xp.broadcast_arrays(x, y[0]),
    "broadcast_to": lambda xp, x, y: xp.broadcast_to(x, (2, *x.shape)),
    "can_cast": lambda xp, x, y: xp.can_cast(x.dtype, xp.complex128),
    "clip": lambda xp, x, y: [xp.clip(x, 0.2, 0.5), xp.clip(x, min=y), xp.clip(x, max=0.5), xp.clip(x)],
    "concat": lambda xp, x, y: [xp.concat([x, y]), xp.concat((x, y), axis=1), xp.concat([x, y], axis=None)],
    "cross": lambda xp, x, y: xp.linalg.cross(x, y, axis=-1),
    "empty_like": lambda xp, x, y: xp.empty_like(x) * 0.0 == 0.0,
    "expand_dims": lambda xp, x, y: [xp.expand_dims(x, axis=0), xp.expand_dims(x, axis=-1)],
    "flip": lambda xp, x, y: [xp.flip(x), xp.flip(x, axis=1)],
    "full": lambda xp, x, y: [xp.full((2, 2), x[0, 1]), xp.full(3, x[0], dtype=xp.complex128)],
    "full_like": lambda xp, x, y: [xp.full_like(x, 2.0), xp.full_like(x, y[0, 1]), xp.full_like(y, x[0, 1], dtype=xp.complex128)],
    "isdtype": lambda xp, x, y: [xp.isdtype(x.dtype, kind) for kind in ("real floating", "integral", ("numeric", xp.float32))],
    "isin": lambda xp, x, y: [xp.isin(x, y), xp.isin(x, x[0], invert=True)],
    "linspace": lambda xp, x, y: [xp.linspace(x[0, 0], y[1, 1], 5), xp.linspace(x[0], 1.0, 4, endpoint=False)],
    "matmul": lambda xp, x, y: [xp.matmul(x, y), xp.linalg.matmul(x, y[0]), x @ y],
    "matrix_power": lambda xp, x, y: [xp.linalg.matrix_power(x, n) for n in (0, 1, 3, -2)],
    "meshgrid": lambda xp, x, y: xp.meshgrid(x[0], y[1], indexing="ij"),
    "moveaxis": lambda xp, x, y: xp.moveaxis(x, 0, -1),
    "nonzero": lambda xp, x, y: xp.nonzero(x),
    "ones_like": lambda xp, x, y: [xp.ones_like(x), xp.ones_like(x, dtype=xp.float32)],
    "outer": lambda xp, x, y: xp.linalg.outer(x[0], y[1]),
    "permute_dims": lambda xp, x, y: xp.permute_dims(x, (1, 0)),
    "repeat": lambda xp, x, y: [xp.repeat(x, 2), xp.repeat(x, 2, axis=0), xp.repeat(x, xp.asarray([1, 0, 2]), axis=1)],
    "reshape": lambda xp, x, y: [xp.reshape(x, (-1,)), xp.reshape(x, (9, 1), copy=True)],
    "result_type": lambda xp, x, y: [xp.result_type(x, xp.float32) == xp.result_type(y, 1.0), xp.result_type(x[0, 0], 1j) == xp.complex128],
    "roll": lambda xp, x, y: [xp.roll(x, 2), xp.roll(x, (1, -1), axis=(0, 1))],
    "searchsorted": lambda xp, x, y: [xp.searchsorted(xp.sort(x[0]), y), xp.searchsorted(xp.sort(x[0]), y[1], side="right")],
    "solve": lambda xp, x, y: [xp.linalg.solve(x, y), xp.linalg.solve(x, y[0])],
    "squeeze": lambda xp, x, y: xp.squeeze(x[None, :, None], axis=(0, 2)),
    "stack": lambda xp, x, y: [xp.stack([x, y]), xp.stack((x, y), axis=-1)],
    "take": lambda xp, x, y: [xp.take(x, xp.asarray([2, 0]), axis=1), xp.take(x[0], xp.asarray([1, 1]))],
    "take_along_axis": lambda xp, x, y: xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1),
    "tensordot": lambda xp, x, y: [xp.tensordot(x, y, axes=1), xp.linalg.tensordot(x, y, axes=((0, 1), (1, 0)))],
    "tile": lambda xp, x, y: xp.tile(x, (2, 1, 2)),
    "tril": lambda xp, x, y: [xp.tril(x), xp.tril(x, k=-1)],
    "triu": lambda xp, x, y: [xp.triu(x), xp.triu(x, k=1)],
    "unique_all": lambda xp, x, y: xp.unique_all(x),
    "unique_counts": lambda xp, x, y: xp.unique_counts(x),
    "unique_inverse": lambda xp, x, y: xp.unique_inverse(x),
    "unique_values": lambda xp, x, y: xp.unique_values(x),
    "unstack": lambda xp, x, y: xp.unstack(x, axis=1),
    "vecdot": lambda xp, x, y: [xp.vecdot(x, y), xp.linalg.vecdot(x, y, axis=0)],
    "where": lambda xp, x, y: [xp.where(x == y, x, y), xp.where(xp.abs(x) > 0.3, x, 0.5)],
    "zeros_like": lambda xp, x, y: [xp.zeros_like(x), xp.zeros_like(x, dtype=xp.float32)],
}
#: the members of an array that are no operators of the functions above
MEMBERS = {
    "mT": lambda xp, x, y: x.mT,
    "T": lambda xp, x, y: x.T,
    "to_device": lambda xp, x, y: x.to_device(x.device),
    "shape": lambda xp, x, y: [x.ndim, x.shape, x.size, x.dtype == y.dtype, len(x)],
    "getitem": lambda xp, x, y: [x[0], x[..., 1], x[None, ::-1], x[xp.asarray([2, 0])], x[1, 2]],
    "masks": lambda xp, x, y: x[xp.abs(x) > 0.3],
    "operators": lambda xp, x, y: [+x, -x, abs(x), x + y, x - 1, 2 * x, x / y, x**2, 2.0**x, x == y, x != 0.3],
    "setitem": lambda xp, x, y: written(xp.asarray(x, copy=True), y),
    "in_place": lambda xp, x, y: in_place(xp.asarray(x, copy=True), y),
}
#: what no compiled function calls: the shape of the result depends on the values
SHAPED_BY_VALUES = ["masks", "nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"]
#: what takes no array that could be traced, and why: these are NumPy's own
OF_NO_ARRAYS = {
    "makes an array of plain numbers": "eye fftfreq rfftfreq arange ones zeros empty",
    "of integers and booleans, which have no derivative": "bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift "
    "bitwise_xor",
    "about dtypes and shapes": "broadcast_shapes finfo iinfo int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 "
    "complex128 bool",
    "a constant": "e inf nan newaxis pi",
    "about the library": "__array_api_version__ __array_namespace_info__ fft linalg",
    "reads the memory of an array, which a traced value does not show": "from_dlpack",
}


def written(x, y):
    x[0] = y[1]
    x[1, 2] = 0.25
    x[x == x[2, 2]] = y[0, 0]
    return x


def in_place(x, y):
    x += y
    x *= 2.0
    x -= y[0]
    x /= 3.0
    return x


def found(xp, name):
    """Return the function of a name in the namespace or in its extensions, None where this NumPy has none."""
    for space in (xp, xp.linalg, xp.fft):
        if hasattr(space, name):
            return getattr(space, name)
    return None


def leaves(x):
    return reduce(lambda parts, part: parts + leaves(part), x, []) if isinstance(x, tuple | list) else [np.asarray(dualad.primal(x))]


def same(ours, plain, exactly):
    for a, b in zip(leaves(ours), leaves(plain), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if exactly or a.dtype.kind not in "fc":
            assert a.tobytes() == b.tobytes(), (a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=20.0 * np.finfo(a.dtype).eps, atol=20.0 * np.finfo(a.dtype).eps)


def interpreted(call, x, y):
    """Yield what a call makes of values of both modes."""
    seen = []

    def f(x, y):
        seen.append(call(x.__array_namespace__(), x, y))
        return np.sum(abs(x))

    dualad.jvp(f, (x, y), (np.ones_like(x), np.ones_like(y)))
    yield seen.pop()
    checkpoint.grad(f, argnums=(0, 1))(x, y)
    yield seen.pop()


def compiled(call, x, y):
    yield dualad.jit(lambda x, y: call(x.__array_namespace__(), x, y))(x, y)


def agree(results, call, x, y):
    """Compare what a call makes of traced values with what it makes of plain ones, in bits, dtypes and shapes, or in errors."""
    with np.errstate(all="ignore"):
        try:
            plain = call(np, x, y)
        except TypeError:  # complex numbers have no angle, say
            with pytest.raises(TypeError):
                list(results(call, x, y))
            return
        for result in results(call, x, y):
            same(result, plain, results is interpreted)


def of_one(name):
    """Yield calls of a function of one array."""
    for x in (SPREAD, 1.0 + SPREAD, SPECIAL):
        yield lambda xp, x, y: found(xp, name)(x), x, x


def of_two(name):
    for x, y in ((SPREAD, SPREAD.T), (SPECIAL[:, None], SPECIAL)):
        yield lambda xp, x, y: found(xp, name)(x, y), x, y
        yield lambda xp, x, y: [found(xp, name)(x, 2.0), found(xp, name)(0.5, x)], x, y


def along_axes(name):
    for axis in (0, 1, -1):
        yield lambda xp, x, y, axis=axis: found(xp, name)(x, axis=axis), SPREAD, MATRIX
    if name not in ("argsort", "diff", "sort") and not name.startswith("cumulative"):
        yield lambda xp, x, y: [found(xp, name)(x), found(xp, name)(x, axis=0, keepdims=True)], SPREAD, MATRIX


def of_matrices(name):
    yield lambda xp, x, y: found(xp, name)(x), MATRIX, SPREAD


def of_any(name):
    yield (CALLS | MEMBERS)[name], MATRIX + SPREAD, MATRIX


KINDS = [
    (of_one, UNARY),
    (of_two, BINARY),
    (along_axes, REDUCED),
    (of_matrices, f"{OF_MATRICES} {FOURIER}"),
    (of_any, " ".join(CALLS | MEMBERS)),
]
NAMES = [pytest.param(calls, name, id=name) for calls, names in KINDS for name in names.split()]


def check(calls, name, results):
    if name not in MEMBERS and found(np, name) is None:
        pytest.skip("not in this NumPy")
    for dtype in (np.float64, np.float32, np.complex128, np.complex64):
        for call, x, y in calls(name):
            with np.errstate(all="ignore"):
                turn = 1.0 if dtype in (np.float64, np.float32) or calls is not of_one else 1.0 - 0.3j
                agree(results, call, (x * turn).astype(dtype), y.astype(dtype))


@pytest.mark.parametrize(("calls", "name"), NAMES)
def test_bits_are_numpys(calls, name):
    check(calls, name, interpreted)


@pytest.mark.campaign
@pytest.mark.parametrize(("calls", "name"), NAMES)
def test_compiled_values_are_numpys_to_rounding(calls, name):
    if name in SHAPED_BY_VALUES:
        with pytest.raises(TraceError, match=r"values|data"):
            check(calls, name, compiled)
    else:
        check(calls, name, compiled)


def test_what_takes_no_traced_values_is_numpys():
    def f(x):
        for name in " ".join(OF_NO_ARRAYS.values()).split():
            ours, numpys = found(x.__array_namespace__(), name), found(np, name)
            assert getattr(ours, "__wrapped__", ours) is numpys or type(ours) is StandIn or ours == numpys, name
        return x

    dualad.derivative(f)(1.0)


def test_no_name_of_the_standard_is_missing():
    strict = pytest.importorskip("array_api_strict")
    ours = {*UNARY.split(), *BINARY.split(), *REDUCED.split(), *OF_MATRICES.split(), *FOURIER.split(), *CALLS}
    ours |= {*" ".join(OF_NO_ARRAYS.values()).split()}
    names = {*strict.__all__, *strict.linalg.__all__, *strict.fft.__all__}
    assert not {name for name in names if "strict" not in name.lower() and name not in ("Device", "__version__")} - ours
