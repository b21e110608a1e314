"""Arrays that adapted code makes of plain numbers take traced values where they are written into them."""

import copy
import pickle
import re
import sys
from types import ModuleType

import numpy as np
import optree
import pytest
from central import differences

import checkpoint as ck
import dualad
from dualad.core.buffers import Buffer, as_buffer
from dualad.core.levels import LIVE
from dualad.rules.calling import places_of

SOURCE = """
import numpy as np

def elements(x):
    a = np.zeros((3, 3))
    row, t = a[1], a.T
    a[0, 0] = x[0]
    row[1] = x[1]
    t[2, 0] = x[2]
    a[1:, 1:] *= x[0]
    return np.sum(a @ a.T + np.sin(a)) + row.sum() + t[2].mean()

def in_place(x):
    P = np.eye(3) * 2.0
    P += np.outer(x, x)
    P[1] -= x
    np.fill_diagonal(P, x)
    np.add(P, 1.0, out=P)
    np.add.at(P, (0, 1), x[2])
    np.copyto(P[2], x * 3.0)
    return np.linalg.det(P) + P.dot(x).sum() + P.copy()[0].sum() + P.reshape(-1)[3] + P.max()

def lists(x):
    R = np.array([[1.0, 0.0], [0.0, 1.0]])
    R[0] = [x[0], 2.0]
    S = np.array([R, R])
    return float(S.sum()) + sum(R[0]) + np.stack([R[1], x[:2]]).sum() + np.float64(R[0, 0]) + np.asarray(R, float).sum()

def outputs(x):
    b, c = np.empty(3), np.empty((2, 3))
    np.multiply(x, 2.0, out=b)
    np.sin(b, out=c[1])
    c[0] = 1.0
    b.fill(x[0])
    b.sort()
    c[:, ::2] = x[1]
    v = c.ravel()
    v[0] += x[2]
    return (c * b).sum() + np.mean(c[1]) + np.dot(c, x).sum() + np.dot(x, b, out=np.empty(())) + np.sum(c, axis=0, out=np.zeros(3)).sum()

def copies(x):
    a = np.zeros(3)
    np.copyto(a, src=x)
    b, c, d = np.array(a), np.asarray(a, copy=True), np.asarray(a)
    a *= x
    a.conj()[1] += x[0]
    b[0], c[1], d[2] = x[1], x[2], 1.0
    e = np.zeros((2, 3), order="F")
    e[:] = x
    f, g = np.ascontiguousarray(e.T), np.asfortranarray(e)
    h, i = np.ascontiguousarray(e), np.asfortranarray(e.T)
    f[0], g[0, 1], h[1], i[2] = x[:2], x[0], 2.0, 3.0
    return np.sum(a * x) + np.sum(b * b) + np.sum(c * a) + np.sum(e @ x) + np.sum(f.T * g + h * i.T)

def returned(x):
    a = np.zeros(3)
    a[1:] = x[1:] ** 2
    return a

def used_before(x):
    a = np.ones(3)
    b = a * x
    a[0] = x[0]
    return np.sum(b * a)

def complex_parts(x):
    a = np.zeros(3, complex)
    a[0] = x[0] * 1j + x[1]
    a.real += x
    a.imag[1] = x[2]
    return np.sum(np.abs(a) ** 2) + a.imag.sum()

def fortran(x):
    a = np.zeros((2, 3), order="F")
    a[0] = x
    a[:, 1] += x[:2]
    view = a[:, ::-1]
    view[1] = x * 2.0
    return np.sum(a**3) + np.sum(view[0] * x) + a.sum(axis=0)[1] + np.concatenate([a, view]).sum()

def by_methods(x):
    c = np.empty(4)
    part = c[1:]
    c[0] = 100.0
    np.add(x, 1.0, out=part)
    part.cumprod(axis=0, out=part)
    part.cumsum(0, None, part)
    np.multiply(part, 2.0, out=part)
    np.fmax.accumulate(c[::-1], axis=0, out=c[::-1])
    d = np.zeros((2, 2, 3))
    e = d.swapaxes(0, 2)[::2, 1]
    e[...] = x[:2]
    e.T[0].clip(0.1, 2.0, out=d[0, 0, :2])
    f = d.reshape(4, 3)[:, 1:]
    f[2] += x[1:]
    g = np.zeros((2, 3))
    g.flat = x
    g.T.flat[1] *= x[0]
    flat = sum(g.flat) * g.flat[4]
    return flat + np.sum(c**2) + np.sum(d**3) + d.ravel()[3:5].sum() + f.ravel().sum() + c.take([0, 1]).sum() + d.astype(float)[0].mean()

def by_views(x):
    a = np.zeros(4)
    own, before, pairs = a.view(), a.view(np.ndarray), np.lib.stride_tricks.as_strided(a, (2, 2), (16, 8))
    a[:3] = x
    np.add(before, 1.0, out=before)
    own[3] = x[0]
    pairs[0] *= x[1]
    b = np.eye(3)
    b @= np.diag(x) + 0.1
    b[0] @= np.ones((3, 3))
    return np.sum(a**2) + np.nansum(a.view(type=np.ndarray)) + np.sum(pairs @ x[:2]) + np.sum(b**3)

def by_elements(x):
    a = np.zeros((2, 3))
    a.flat[4] = x[0]
    a.T.flat[1:3] = x[1:]
    a.flat[0] = 2.0
    total = sum(v * i for i, v in enumerate(a[:, ::-1].flat)) + a.item((0, 1)) * a.item(4)
    for (i, j), v in np.ndenumerate(a):
        total = total + (v**2 * x[j] if v > 0 else i * v)
    return total + np.sum(ramps(a) * x)

ramps = np.vectorize(lambda v: v if v > 0.0 else 0.1 * v)

def full_ones(x):
    a, b = np.full_like(np.ones((2, 3)), x), np.full_like(PLAIN, x[0], shape=(3,))
    a[0, 1], b[2] = 3.0, x[1]
    return np.sum(a * b) + np.sum(np.full_like(x, 2.0) * b)

PLAIN = np.ones(2)

def however_made(x):
    R, S = [1.0, 2.0], [3.0, 4.0]
    made = [
        np.arange(2.0), np.linspace(0.0, 1.0, 3), np.logspace(0.0, 1.0, 3), np.full(2, 7.0), np.array(R), np.copy(PLAIN), np.asarray(R),
        np.empty(2), np.empty_like(PLAIN), np.ones(2), np.ones_like(PLAIN), np.zeros(2), np.zeros_like(PLAIN), np.eye(2), np.identity(2),
        np.tri(2), np.tril(SQUARE), np.triu(SQUARE), np.diag(PLAIN), np.diagflat(PLAIN), np.asanyarray(R), np.require(R),
        np.asarray_chkfinite(R), np.ascontiguousarray(R), np.asfortranarray(R), np.concatenate([R, S]), np.stack([R, S]), np.hstack([R, S]),
        np.vstack([R, S]), np.dstack([R, S]), np.column_stack([R, S]), np.repeat(R, 2), np.tile(R, 2), np.dot(SQUARE, PLAIN),
        np.inner(SQUARE, PLAIN), np.outer(PLAIN, PLAIN), np.kron(PLAIN, PLAIN),
    ]
    for k, a in enumerate(made):
        a[...] = x[k % 3] + k
    return sum(np.sum(a**2) for a in made)

SQUARE = np.ones((2, 2))

def stays_plain(x):
    a = np.zeros(3)
    a[1] = 2.0
    a += np.arange(3.0)
    i = np.zeros(3, int)
    i[0] = 2
    return np.sum(a * x) + np.finfo(a.dtype).eps * x[0] + float(a[1]) * x[1] + x[i[0]] + len(a.view(np.uint8)) * x[0]

def traced_mask(x):
    a = np.zeros(3)
    a[:] = x
    a[a > 0.5] = 1.0
    np.multiply(a, x, out=a, where=a < 1.0)
    return np.sum(a * x)

def two_levels(x, put):
    a = np.zeros(3)
    a[0] = x[0]
    return put(x[1], a) * a[0]

def put(t, a):
    b, c = np.zeros(3), np.zeros(3)
    b[1] = t**2
    b[2] = a[0] * t
    c[:] = b
    return np.sum(b * c + a)
"""
NAMES = re.findall(r"^def (\w+)\(x\)", SOURCE, re.MULTILINE)
X = np.array([0.3, -0.7, 1.1])


@pytest.fixture(scope="module")
def code():
    module = ModuleType("others_buffers")
    exec(compile(SOURCE, "others_buffers.py", "exec"), vars(module))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "others_buffers", module)
        yield module


def total(f):
    return lambda x: np.sum(f(x) * np.cos(np.arange(np.size(f(x)))).reshape(np.shape(f(x))))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_keeps_derivatives(code, name):
    f = total(getattr(code, name))
    value, slopes = f(X), differences(f, X)
    with dualad.adapt(code):
        assert f(X) == value
        result, gradient = ck.value_and_grad(f)(X)
        np.testing.assert_allclose(result, value, rtol=1e-14)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(dualad.gradient(f)(X), slopes, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(dualad.jvp(f, (X,), (X,))[1], slopes @ X, rtol=1e-6)
    assert not LIVE


@pytest.mark.slow
def test_it_compiles(code):
    f = lambda x: code.elements(x) + code.in_place(x) + code.outputs(x)
    with dualad.adapt(code):
        compiled = dualad.jit(ck.grad(f))
        for x in (X, X + 0.25):
            np.testing.assert_allclose(compiled(x), ck.grad(f)(x), rtol=1e-12)
    assert compiled.traces == 1


def test_levels_are_nested(code):
    slope = lambda t, a: dualad.derivative(lambda t: code.put(t, a))(t)
    with dualad.adapt(code):
        gradient = ck.grad(lambda x: code.two_levels(x, slope))(X)
    x, y, _ = X  # the slope of y^4 + (x y)^2 + x, times x
    np.testing.assert_allclose(gradient, [4 * y**3 + 6 * x**2 * y, 12 * x * y**2 + 2 * x**3, 0.0], rtol=1e-13)


def test_steps_of_a_chain_return_them(code):
    exec("def step(k, x):\n    a = np.empty(3)\n    a[0] = x[1]\n    a[1:] = np.sin(x[:2]) + 0.1\n    return a", vars(code))
    f = lambda x: np.sum(ck.chain(code.step, x, steps=5) ** 2)
    slopes = differences(f, X)
    with dualad.adapt(code):
        np.testing.assert_allclose(ck.grad(f)(X), slopes, rtol=1e-6)
        np.testing.assert_allclose(dualad.gradient(f)(X), slopes, rtol=1e-6)


def test_only_derivative_calls_make_them(code):
    seen = []
    with dualad.adapt(code):
        assert type(code.np.zeros(3)) is np.ndarray
        ck.grad(lambda x: seen.append(code.np.zeros(3)) or x)(1.0)
        assert type(code.np.zeros(3)) is np.ndarray
    a = seen[0]
    assert type(a) is Buffer and isinstance(a, np.ndarray) and repr(a) == "array([0., 0., 0.])"
    assert type(pickle.loads(pickle.dumps(a))) is np.ndarray
    a[0] = 3.0  # it goes on as an array of plain numbers
    assert list(copy.deepcopy(a) + a) == [6.0, 0.0, 0.0]


def test_no_stale_number_is_read(code):
    """Code that is handed the memory itself reads NaN, and what it writes there is not lost in silence."""

    def read(x):
        a = code.np.zeros(3)
        memory = np.asarray(memoryview(a))
        a[0] = x
        assert np.isnan(memory).all()
        return a

    def written(x):
        a = read(x)
        np.asarray(memoryview(a))[1] = 2.0
        return np.sum(a)

    def after(x):
        kept.append(read(x))
        return x

    kept = []
    with dualad.adapt(code):
        assert dualad.derivative(lambda x: np.sum(read(x) ** 2))(3.0) == 6.0
        with pytest.raises(TypeError, match="which would be lost"):
            ck.grad(written)(3.0)
        dualad.derivative(after)(3.0)
        with pytest.raises(RuntimeError, match="after the derivative call"):
            np.sum(kept[0])


@pytest.mark.parametrize("dtype", [float, np.float32, complex])
def test_a_result_of_stale_numbers_raises(code, dtype):
    """A constant NaN would have the derivative zero."""

    def filled(x):
        a = code.np.zeros(3, dtype)
        a[1] = x * x
        return memoryview(a)

    def of_a_copy(x):
        return np.sum(np.real(np.asarray(filled(x)) * 2.0)) + x

    with dualad.adapt(code):
        with pytest.raises(TypeError, match=r"numpy\.asarray: .* read an array that a traced value was written into"):
            dualad.derivative(lambda x: np.nansum(np.real(code.np.asarray(filled(x)))))(3.0)
        for f in (lambda x: np.asarray(filled(x))[1].real, lambda x: np.real(np.asarray(filled(x)) @ np.ones(3)), of_a_copy):
            for derivative in (
                lambda f: lambda x: ck.vjp(f, x),
                dualad.derivative,
                dualad.hessian,
                lambda f: lambda x: dualad.jvp(f, (x,), (x,)),
            ):
                with pytest.raises(TypeError, match="read an array that a traced value was written into"):
                    derivative(f)(3.0)
        assert np.isnan(dualad.derivative(lambda x: (filled(x), x * np.nan)[1])(3.0))  # another NaN
    assert dualad.derivative(lambda x: np.nan)(3.0) == 0.0


def test_what_cannot_be_written_raises(code):
    def read_only(x):
        a = code.np.zeros(3)
        a.flags.writeable = False
        a[0] = x
        return a

    def into_the_real_part(x):
        a = code.np.zeros(3, complex)
        a.real[0] = x
        return a

    def of_memory(read):
        def f(x):
            a = code.np.zeros(3)
            a[0] = x
            return len(read(a)) * x

        return f

    def into_the_caller_s(x):
        a = X.copy()
        a[0] = x
        return a

    def read_only_after(x):
        a = code.np.zeros(3)
        a[0] = x
        a.flags.writeable = False
        a[1] = 2.0

    with dualad.adapt(code):
        for f in (read_only, read_only_after):
            with pytest.raises(ValueError, match="read-only"):
                dualad.derivative(f)(3.0)
        with pytest.raises(TypeError, match="a view of dtype float64"):
            dualad.derivative(into_the_real_part)(3.0)
        with pytest.raises(TypeError, match="an array of plain numbers"):
            dualad.derivative(into_the_caller_s)(3.0)
        for name, read in {"data": lambda a: a.data, "ctypes": lambda a: a.ctypes, "tobytes": lambda a: a.tobytes()}.items():
            with pytest.raises(AttributeError, match=f"has no '{name}': .* not one block of memory"):
                dualad.derivative(of_memory(read))(3.0)
        with pytest.raises(TypeError, match=r"numpy\.matrix together"):
            dualad.derivative(of_memory(lambda a: a.view(np.matrix)))(3.0)
        with pytest.raises(TypeError, match=r"numpy\.nditer has no derivative"):
            dualad.derivative(of_memory(lambda a: code.np.nditer(a)))(3.0)


def test_what_is_written_into_may_be_named(code):
    def named(x):
        a = code.np.zeros(3)
        np.copyto(dst=a, src=x)
        return np.sum(a * a)

    with dualad.adapt(code):
        if places_of(np.copyto):
            assert ck.grad(named)(X).tolist() == (2.0 * X).tolist()
        else:  # NumPy before 2.4 does not say what the names mean
            with pytest.raises(TypeError, match=r"numpy\.copyto: pass the array that is written into as a positional"):
                ck.grad(named)(X)


#: what is asked of an array, and of one number, whose memory no longer holds what was written into them
READ = """
a.argmax() a.argmin(axis=1) a.argpartition(1) a.argsort() a[0].searchsorted(0.5) a.choose([a,a]) a.clip(0.2,0.9) a.compress([False,True])
a.conj() a.conjugate() a.copy() a.cumprod() a.cumsum(0) a.dot(a) a.flatten() a.item(2) a.max() a.mean() a.min() a.nonzero() a.prod()
a.repeat(2) a.round(1) a.std() a.sum() a.take([1]) a.tolist() a.trace() a.var() a.all() a.any() a.astype(complex) a.T.ravel()
a.T.reshape(-1) a.T a.mT a.diagonal() a[:1].squeeze() a.swapaxes(0,1) a.transpose() a.real a.imag
a.tobytes() a.dump(None) a.dumps() a.tofile(None) a.byteswap() a.getfield(float) a.data a.ctypes
bool(one) float(one) complex(one) int(one) range(one) (0.3)in(a) copy.copy(a) copy.deepcopy(a) f"{one}"
"""
WRITTEN = ("a.put([1], [5.0])", "a.partition(0)", "a.sort(0)", "a.fill(2.0)")
SQUARE = np.array([[0.3, -0.7], [0.0, 0.4]])


def holding(x):
    a = as_buffer(np.zeros(np.shape(x)))
    a[...] = x
    return a


@pytest.mark.parametrize("expression", READ.split())
def test_methods_read_what_was_written(expression):
    ask = eval(f"lambda a, one: {expression}", {"copy": copy})

    def outcome(f):
        try:
            return [np.asarray(leaf).tobytes() for leaf in optree.tree_leaves(dualad.jvp(f, (SQUARE,), (np.cos(SQUARE),)))]
        except (TypeError, ValueError, AttributeError) as error:
            return type(error)

    assert outcome(lambda x: ask(holding(x), holding(x[0, 0]))) == outcome(lambda x: ask(x, x[0, 0]))


@pytest.mark.parametrize("expression", WRITTEN)
def test_methods_write_over_what_was_written(expression):
    write = eval(f"lambda a: {expression} or a")
    value = dualad.jvp(lambda x: write(holding(x)), (SQUARE,), (SQUARE,))[0]
    np.testing.assert_array_equal(value, write(SQUARE.copy()))
