"""Functions with a ufunc underneath in compiled code: NumPy's and SciPy's bits, eager derivatives, no Python between two steps."""

import sys

import numpy as np
import pytest
from comparing import close, leaves, same
from other_processes import output_of

pytest.importorskip("llvmlite")

from checkpoint import Stats, chain, grad, hvp
from dualad import jit, jvp
from dualad.codegen.native import Native
from dualad.jit.compiled import BACKENDS
from dualad.loops import inner_loops
from dualad.rules.decompositions import qr_factors
from dualad.rules.kinds import ROWS
from dualad.support import ufunc_loops

random = np.random.default_rng(5)
X = random.normal(size=(3, 4, 6))
Z = X[0] + 1j * X[1]


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
    monkeypatch.setitem(BACKENDS, "llvm", Native)
    monkeypatch.setattr(inner_loops, "CHECKED", {})


@pytest.fixture
def special():
    return pytest.importorskip("scipy.special", reason="SciPy (the extra `scipy`) is not installed")


def check(f, *args, called=False):
    """Compare a compiled function with the function itself, bit for bit; it calls nothing through Python, unless it is said."""
    compiled = jit(f)
    with np.errstate(all="ignore"):
        for found, expected in zip(map(np.asarray, leaves(compiled(*args))), map(np.asarray, leaves(f(*args))), strict=True):
            assert (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    assert ("called" in compiled.explain(*args)) == called, compiled.explain(*args)
    return compiled


def check_all(calls):
    """Compare calls, which are functions with their arguments, in one compiled function."""
    functions, points = zip(*calls, strict=True)
    check(lambda *points: [f(*args) for f, args in zip(functions, points, strict=True)], *points)


# --- values -------------------------------------------------------------------------------------------------------------------------

TRANSFORMS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2", "irfftn"]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    fn = getattr(np.fft, name)
    real = name.startswith(("rfft", "ihfft"))
    xs = [X, X[0], X.astype(np.float32), X.T, X[::2, :, 1:], *([] if real else [Z, Z.astype(np.complex64)])]
    norms = [(lambda x, norm=norm: fn(2 * x, norm=norm), (X if real else Z,)) for norm in ("ortho", "forward")]
    check_all([*((lambda x: fn(2 * x), (x,)) for x in xs), *norms])


def test_transforms_of_three_axes():
    compiled = jit(lambda x: np.fft.rfftn(x))
    np.testing.assert_allclose(compiled(X), np.fft.rfftn(X), rtol=1e-13, atol=1e-13)  # NumPy 2.0 takes the axes in another order
    assert "called" not in compiled.explain(X)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_transforms_of_any_length_along_any_axis(name):
    fn = getattr(np.fft, name)
    calls = [(lambda x, n=n, axis=axis: fn(x, n, axis), (X,)) for axis in (0, 1, -1) for n in (1, 4, 5, 9)]
    check_all([*calls, (fn, (np.arange(1, 8),)), (lambda x: fn(x)[1], (X[0, 0].astype(np.float32),))])


SPECIAL = {
    "erf": (X,), "gammaln": (X,), "jv": (1, X), "yv": (0.5, X[0, 0]), "iv": (X[0], X[1, 0]), "kn": (2, abs(X)),
    "expit": (X.astype(np.float32),), "betainc": (abs(X), 1.5, 0.3), "ellipk": (0.3,), "hyp2f1": (0.5, X[0, 0] ** 2, 2.5, np.tanh(X)),
    "wofz": (Z,), "loggamma": (Z,),
    "xlogy": (abs(X), abs(X) + 1), "eval_legendre": (3, X), "fresnel": (X,), "ellipj": (X, 0.4), "sici": (abs(X),), "gammasgn": (X,),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name, special):
    fn = getattr(special, name)
    check_all([(fn, SPECIAL[name]), (lambda *args: fn(*args[:-1], args[-1] * 1.5), SPECIAL[name])])


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, 4))])
def test_every_special_function_with_a_row_is_called_without_python(part, special):
    special.erf(0.0)
    jit(special.erf)(0.5)
    found = []
    for fn, row in ROWS.items():
        of_floats = type(fn) is np.ufunc and fn.nout == 1 and any(set(types) <= {*"d->"} for types in fn.types)
        rare = fn in getattr(sys.modules.get("dualad.rules.special_rare"), "RARE", ())  # which may have been asked for
        if row.trusted and row.name.startswith("scipy.special") and of_floats and row.kind == "elementwise" and not rare:
            found.append(fn)
    assert len(found) >= 100
    for fn in found[part::4]:
        check(fn, *[np.array([1.0, 2.0])] * (fn.nin - 1), np.array([0.3, 0.7]))


S = X[0] @ X[0].T + 3 * np.eye(4)
MANY = np.stack([np.kron(np.eye(2), S) + 0.1 * k + np.tri(8) for k in range(3)])  # 3 matrices of 8 rows
GENERAL, POSITIVE = MANY[0], MANY[0] @ MANY[0].T
HERMITIAN = POSITIVE + 1j * (MANY[1] - MANY[1].T)
WIDE = random.normal(size=(2, 5, 8))
TURNING = np.array([[0.5, 1.0], [-1.0, 0.3]])  # with complex eigenvalues
LAPACK = {
    "solve": (np.linalg.solve, [(GENERAL, GENERAL[0]), (MANY, MANY[1]), (MANY, GENERAL[0]), (GENERAL, MANY), (HERMITIAN, GENERAL[0])]),
    "inv": (np.linalg.inv, [(GENERAL,), (MANY,), (HERMITIAN,), (MANY[:, ::-1],), (MANY[:1],)]),
    "det": (np.linalg.det, [(GENERAL,), (MANY,), (HERMITIAN,)]),
    "slogdet": (np.linalg.slogdet, [(GENERAL,), (MANY,), (HERMITIAN,)]),
    "cholesky": (np.linalg.cholesky, [(POSITIVE,), (np.stack([POSITIVE, 2 * POSITIVE]),), (HERMITIAN,)]),
    "eigh": (np.linalg.eigh, [(POSITIVE,), (MANY,), (HERMITIAN,)]),
    "eigh, upper": (lambda a: np.linalg.eigh(a, "U"), [(POSITIVE,), (MANY,)]),
    "eigvalsh": (np.linalg.eigvalsh, [(POSITIVE,), (MANY,), (HERMITIAN,)]),
    "svd": (np.linalg.svd, [(GENERAL,), (WIDE,), (WIDE[0].T,), (HERMITIAN,)]),
    "svd, thin": (lambda a: np.linalg.svd(a, full_matrices=False), [(GENERAL,), (WIDE,), (WIDE[0].T,)]),
    "qr": (np.linalg.qr, [(GENERAL,), (WIDE[0].T,), (np.swapaxes(WIDE, 1, 2),), (HERMITIAN,)]),
    "svdvals": (lambda a: np.linalg.svd(a, compute_uv=False), [(GENERAL,), (WIDE,), (HERMITIAN,)]),
    "qr, complete": (lambda a: np.linalg.qr(a, "complete")[1], [(WIDE[0].T,), (np.swapaxes(WIDE, 1, 2),), (GENERAL,), (HERMITIAN,)]),
    "eigvals": (np.linalg.eigvals, [(GENERAL,), (MANY,), (HERMITIAN,), (TURNING,), (np.stack([TURNING, GENERAL[:2, :2]]),)]),
    "eig": (lambda a: np.linalg.eig(a)[0], [(GENERAL,), (HERMITIAN,), (TURNING,)]),
    "lstsq": (np.linalg.lstsq, [(WIDE[0].T, GENERAL[0]), (WIDE[0].T, GENERAL), (WIDE[0], GENERAL[0, :5]), (GENERAL, GENERAL[0])]),
    "lstsq, short of rank": (lambda a, b: np.linalg.lstsq(a, b, 0.5), [(WIDE[0].T, GENERAL[0])] * 2),
    "matrix_rank": (lambda a: np.linalg.matrix_rank(a), [(GENERAL,), (WIDE,), (np.ones((4, 4)),)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LAPACK)
def test_linear_algebra(name):
    fn, calls = LAPACK[name]
    single = lambda x: x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)
    others = [tuple(map(of, calls[0])) for of in (single, lambda x: np.rint(9 * x).astype(int), np.asfortranarray)]
    check_all([(fn, args) for args in [*calls, *others]])


def test_numpy_ufuncs_that_loops_have_no_expression_for():
    check(lambda z: np.arcsin(z) + np.log(z), Z)


def test_arrays_of_any_layout_and_none():
    frozen = X.copy()
    frozen.flags.writeable = False
    for x in (frozen, np.asfortranarray(X[0]), X[:, ::-1], X[..., 1], np.broadcast_to(X[0, 0], (3, 6))):
        check(np.fft.rfft, x)
    check(lambda x: np.fft.rfft(x, axis=1), np.zeros((0, 4)), called=True)


# --- derivatives --------------------------------------------------------------------------------------------------------------------


def compiles(f, *args):
    """Compare a compiled function with the function itself, nearly; it calls nothing through Python."""
    compiled = jit(f)
    close(compiled(*args), f(*args), 1e-11, 1e-12)
    assert "called" not in compiled.explain(*args), compiled.explain(*args)
    return compiled


def energy(x):
    return np.sum(np.abs(np.fft.rfft(x, 10)) ** 2 * np.arange(6.0)) + np.sum(np.fft.irfft(np.fft.fft(x) * 1j, 7) ** 3)


def test_derivatives():
    x, t = X[0, 0], X[0, 1]
    for f, *args in ((grad(energy), x), (lambda x, t: jvp(energy, (x,), (t,))[1], x, t), (lambda x, t: hvp(energy, x, t), x, t)):
        compiles(f, *args)
    step = 1e-6
    differences = [(energy(x + step * e) - energy(x - step * e)) / (2 * step) for e in np.eye(6)]
    np.testing.assert_allclose(jit(grad(energy))(x), differences, rtol=1e-6)


def test_derivatives_of_special_functions(special):

    def f(x):
        return np.sum(special.erf(x) * special.jv(1, x) + special.gammaln(x * x + 1.0) * special.sici(x)[0])

    compiles(grad(f), X)
    compiles(grad(lambda x: special.erf(x) * special.kn(2, x + 2.0)), 0.4)


@pytest.mark.parametrize("name", ["expit", "ellipe", "wrightomega", "gammainc", "betainc", "beta", "rel_entr"])
def test_derivatives_that_are_functions_of_our_own(name, special):
    fn = getattr(special, name)

    def f(x):
        return np.sum(fn(*[2.0] * (fn.nin - 1), x) ** 2)

    compiles(grad(f), np.tanh(np.abs(X)) * 0.9)


def test_functions_without_a_derivative_have_values(special):
    x = np.array([0.3, 0.7])
    compiled = check(lambda x: special.smirnovi(3, x), x)
    for derivative in (
        grad(lambda x: np.sum(compiled(x))),
        jit(grad(lambda x: special.smirnovi(3, x[0]))),
        lambda x: jvp(compiled, (x,), (x,)),
    ):
        with pytest.raises(TypeError, match=r"scipy\.special\.smirnovi has no derivative: it has none in closed form"):
            derivative(x)
    step = lambda k, x: 0.5 * x + special.elliprc(1.0, x)  # its slope is of such functions
    loss = lambda step: lambda x: np.sum(chain(step, x, steps=4))
    close(grad(loss(jit(step)))(x), grad(loss(step))(x), 1e-11, 1e-12)


def test_the_determinant_of_a_singular_matrix_has_a_gradient():
    a = GENERAL.copy()
    a[1] = a[0]
    gradient = compiles(grad(np.linalg.det), GENERAL)
    close(gradient(GENERAL), np.linalg.det(GENERAL) * np.linalg.inv(GENERAL).T, 1e-11, 1e-12)
    close(gradient(a), grad(np.linalg.det)(a), 1e-11, 1e-12)
    assert np.max(np.abs(gradient(a))) > 1.0


@pytest.mark.parametrize("name", LAPACK)
def test_derivatives_of_linear_algebra(name):
    fn, calls = LAPACK[name]

    def loss(*args):
        return sum(np.sum(np.abs(x) ** 2 * np.cos(np.arange(x.size)).reshape(x.shape)) for x in leaves(fn(*args)))

    tangent = lambda *args: jvp(lambda a: loss(a, *args[1:]), args[:1], (np.cos(args[0]),))[1]
    for derivative, args in ((grad(loss), calls[0]), (tangent, calls[0 if name.startswith("eigh") else 1])):
        compiles(derivative, *args)


@pytest.mark.slow
@pytest.mark.parametrize("hermitian", [False, True])
def test_the_pseudo_inverse_is_made_of_the_factors_that_numpy_takes(hermitian):
    deficient = WIDE[0, :4].T @ WIDE[0, :4]
    pseudo = lambda a: np.linalg.pinv(a, 1e-10, hermitian)
    for a in (deficient - 3.0 * np.outer(WIDE[0, 4], WIDE[0, 4]), HERMITIAN, POSITIVE[:1, :1] if hermitian else WIDE):
        compiles(pseudo, a)
        compiles(grad(lambda a: np.sum(np.abs(pseudo(a)) ** 3)), a)


# --- chains -------------------------------------------------------------------------------------------------------------------------


def spectral(k, v, rate):
    return v * 0.9 - rate * 0.1j * np.fft.rfft(np.fft.irfft(v) ** 2) + np.exp(-0.01 * k)


def in_blocks(step, state, *params):
    """Compare a chain of a compiled step with one of the step, and its gradients: it is made in blocks."""
    stats = Stats()

    def loss(step, **options):
        return lambda *args: np.sum(np.abs(chain(step, *args, steps=12, **options)) ** 2)

    compiled, argnums = jit(step), tuple(range(1 + len(params)))
    close(*(np.asarray(chain(one, state, *params, steps=12)) for one in (compiled, step)), 1e-13)
    found = grad(loss(compiled, stats=stats), argnums=argnums)(state, *params)
    close(found, grad(loss(step), argnums=argnums)(state, *params), 1e-11, 1e-12)
    assert "compiled steps" in stats.reason, stats.reason


def test_steps_are_made_in_blocks():
    in_blocks(spectral, np.fft.rfft(X[0, 0]), 0.3)
    a = GENERAL + 9 * np.eye(8)
    solved = lambda x, c: np.linalg.solve(a + c * np.outer(x, x), x)
    in_blocks(lambda k, x, c: solved(x, c) + np.linalg.eigvalsh(POSITIVE + np.diag(x))[::-1], a[0], 0.1)


def test_steps_with_special_functions_are_made_in_blocks(special):
    in_blocks(lambda k, x, c: x + 0.1 * special.erf(c * x) - 0.01 * special.jv(1, x), X[0], 0.7)
    in_blocks(lambda k, x, c: x + 0.1 * special.erf(c * x), 0.3, 0.7)


def test_a_traced_chain_is_one_loop():
    f = jit(lambda v: chain(lambda k, v: spectral(k, v, 0.3), v, steps=9))
    v = np.fft.rfft(X[0, 0])
    np.testing.assert_allclose(f(v), chain(lambda k, v: spectral(k, v, 0.3), v, steps=9), rtol=1e-13)
    assert "called" not in f.explain(v)


# --- errors -------------------------------------------------------------------------------------------------------------------------

ERRORS = {
    "solve": (lambda a: np.linalg.solve(a, a[0]), np.ones((7, 7))),
    "inv": (np.linalg.inv, np.stack([np.eye(7), np.zeros((7, 7))])),
    "cholesky": (np.linalg.cholesky, -np.eye(7)),
    "eigh": (np.linalg.eigh, np.full((7, 7), np.nan)),
    "svd": (np.linalg.svd, np.full((7, 7), np.nan)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_numpy(name):
    fn, bad = ERRORS[name]
    compiled = jit(fn)
    compiled(np.eye(*bad.shape[-2:]) + np.zeros(bad.shape))
    assert "called" not in compiled.explain(bad)
    with pytest.raises(np.linalg.LinAlgError) as expected:
        fn(bad)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError) as found:
            compiled(bad)
        assert str(found.value) == str(expected.value) and "test_inner_loops.py, line" in found.value.__notes__[0]
    check(fn, np.eye(*bad.shape[-2:]) + np.zeros(bad.shape))  # the flag is down again


def test_an_error_in_the_middle_of_a_chain_is_that_of_the_step():
    def step(k, x):
        return np.linalg.solve(np.where(k < 7, np.eye(7), np.ones((7, 7))) * 2.0, x)

    for run in (lambda x: chain(jit(step), x, steps=20), lambda x: grad(lambda x: np.sum(chain(jit(step), x, steps=20)))(x)):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix") as found:
            run(np.ones(7))
        assert "test_inner_loops.py, line" in found.value.__notes__[0]
    stats = Stats()
    close(chain(jit(step), np.ones(7), steps=7, stats=stats), 0.5**7 * np.ones(7), 1e-11)
    assert "one by one" not in stats.reason


def test_nan_is_no_error_where_numpy_gives_nan():
    check(np.linalg.solve, np.where(np.eye(7) > 0, np.nan, 1.0), np.ones(7))
    check(np.linalg.det, np.full((7, 7), np.nan))
    check(lambda x: np.fft.fft(x).real, np.array([np.inf, 1.0, np.nan]))


# --- what is not as it was ----------------------------------------------------------------------------------------------------------


def test_a_loop_that_gives_other_values_is_not_called(monkeypatch):
    real = inner_loops.call_loop

    def lying(name, types, dimensions, steps, *arrays, **options):
        real(name, types, dimensions, steps, *arrays, **options)
        arrays[-1][...] = np.nextafter(arrays[-1].real, 9.0)

    monkeypatch.setattr(inner_loops, "call_loop", lying)
    assert "the loop dd->D of numpy.fft._pocketfft_umath.rfft_n_even gives other values" in check(np.fft.rfft, X, called=True).explain(X)


@pytest.mark.parametrize("missing", ["name", "loop", "layout"])
def test_a_loop_that_is_missing_is_not_called(missing, monkeypatch):
    ufunc_loops.address_of.cache_clear()

    def lacks(name):
        raise LookupError(f"there is no ufunc {name}")

    if missing == "name":
        monkeypatch.setattr(inner_loops, "ufunc_named", lacks)
    elif missing == "loop":
        monkeypatch.setattr(inner_loops, "types_of", lambda ufunc, operands: "??->?")
    else:
        monkeypatch.setattr(ufunc_loops, "Head", type("Head", (ufunc_loops.Head,), {"nin": property(lambda head: 7)}))
    compiled = check(np.fft.rfft, X, called=True)
    assert "it is a Fourier transform; " in compiled.explain(X)
    ufunc_loops.address_of.cache_clear()


def test_code_with_a_step_that_must_be_called_is_called_itself(monkeypatch):
    real = inner_loops.ufunc_named

    def lacks(name):
        if "qr_reduced" in name:
            raise LookupError(f"there is no ufunc {name}")
        return real(name)

    monkeypatch.setattr(inner_loops, "ufunc_named", lacks)
    assert "qr_factors(" in check(lambda a: np.linalg.qr(a * 2.0), GENERAL, called=True).explain(GENERAL)
    monkeypatch.setattr(inner_loops, "ufunc_named", real)
    monkeypatch.setattr(ROWS[qr_factors], "inlined", lambda a: np.linalg.qr(-a))
    assert "gives other values" in check(lambda a: np.linalg.qr(a * 2.0), GENERAL, called=True).explain(GENERAL)


CACHED = """
import numpy as np
from dualad import jit
from dualad.codegen import machine, cache
stored = cache.stored
def counted(digest, make):
    return stored(digest, lambda: print("made") or make())
machine.stored = counted
f = jit(lambda x: np.fft.irfft(np.fft.rfft(x) * 0.5))
x = np.linspace(0.0, 1.0, 8)
assert f(x).tobytes() == np.fft.irfft(np.fft.rfft(x) * 0.5).tobytes()
assert "called" not in f.explain(x)
"""


@pytest.mark.slow
def test_machine_code_on_disk_finds_the_loops_of_another_process(tmp_path):
    outs = [output_of(CACHED, DUALAD_CACHE_DIR=str(tmp_path / "cache")) for _ in range(2)]
    assert outs[0].count("made") == 2 and not outs[1]  # how it is entered is one


def test_machine_code_is_of_one_version(monkeypatch):
    first = ufunc_loops.symbol_of("numpy.fft._pocketfft_umath.fft", "Dd->D")
    monkeypatch.setattr(np, "__version__", "2.99")
    assert ufunc_loops.symbol_of("numpy.fft._pocketfft_umath.fft", "Dd->D") != first


SHARED = {
    "along the last axis": (lambda x: np.fft.rfft(x), (520, 512), float, "part=(block_low, block_high)"),
    "along the first axis": (lambda x: np.fft.fft(x, axis=0), (80, 130), complex, "part=(block_low, block_high)"),
    "along a middle axis": (lambda x: np.fft.ifft(x, axis=1), (13, 40, 20), complex, "for k in range(block_low, block_high)"),
    "of numbers": (
        lambda x: pytest.importorskip("scipy.special", reason="an extra").gammaln(x), (91, 91), float, "part=(block_low, block_high)"
    ),
    "of few": (lambda x: np.fft.rfft(x), (8, 80), float, None),
    "of matrices that may be singular": (lambda x: np.linalg.inv(x), (100, 16, 16), float, None),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_threads_share_a_call_of_a_loop_along_its_first_axis(name):
    f, shape, dtype, part = SHARED[name]
    x = random.uniform(0.5, 1.5, size=shape).astype(dtype)
    for threads in (1, 2):
        g = jit(f, threads=threads)
        assert g(x).tobytes() == f(x).tobytes()
        assert " run(" not in g.source(x) if part is None else part in g.source(x)
    space: dict = {}
    exec(g.source(x), space)
    out = np.empty_like(f(x))
    space["part0"](x, out)
    assert out.tobytes() == f(x).tobytes()
    by_threads = [jit(grad(lambda x: np.sum(np.abs(f(x)) ** 2)), threads=threads)(x) for threads in (1, 2)]
    np.testing.assert_array_equal(*by_threads)


@pytest.mark.parametrize("kept", [False, True])
def test_large_arrays_to_work_in_are_one_where_they_are_not_read_at_the_same_time(kept):
    def filtered(x):
        first = x = np.fft.fft2(x)
        for n in range(5):
            x = np.fft.ifft2(np.fft.fft2(x * 0.5) * (n + 1.0))
        return (x.real, x * first) if kept else x.real

    x = random.normal(size=(64, 64))
    compiled = jit(filtered)
    same(compiled(x), filtered(x))
    native = next(iter(compiled.entries.values())).compiled.executable
    work = [name for name in native.emitted.names.values() if name[0] == "w"]
    assert len(set(work)) <= 4 and len(work) > 15
