"""dualad.scipy.fft: SciPy's own values and tangents bit for bit; transposes by the pairing Re(g * t), for all norms, types and lengths."""

from itertools import product

import numpy as np
import pytest
from scipy_calls import check_refused

import dualad
from checkpoint import grad, vjp

pytest.importorskip("scipy")
from scipy import fft as sf

from dualad.rules.scipy.fft import FUNCTIONS
from dualad.scipy import fft

RNG = np.random.default_rng(7)
X = RNG.standard_normal((2, 5, 6))
Z = X + 1j * RNG.standard_normal(X.shape)
NORMS = (None, "backward", "ortho", "forward")
FROM_NUMBERS = {"rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn"}
REAL_ONLY = {"fftfreq", "rfftfreq", "next_fast_len", "prev_fast_len"}
TRANSFORMS = [name for name in FUNCTIONS if "fft" in name and name not in REAL_ONLY and "shift" not in name]
TRIGONOMETRIC = [name for name in FUNCTIONS if "ct" in name or ("st" in name and "fast" not in name)]


def places(name):
    if name.endswith("n"):
        return [{}, {"axes": (1,)}, {"s": (4, 7), "axes": (-1, 0)}, {"s": (3, -1)}]
    if name.endswith("2"):
        return [{}, {"s": (7, 5)}, {"axes": (0, 1), "workers": 2}]
    return [{}, {"n": 4}, {"n": 9, "axis": 1}, {"axis": 0, "overwrite_x": True}]


def settings(name):
    """Return pairs of places and norms, each of both at least three times."""
    given = places(name)
    return [(given[(k + k // 4) % len(given)], NORMS[k % 4]) for k in range(12)]


def calls():
    for name in TRANSFORMS:
        for x, (place, norm) in product((X,) if name in FROM_NUMBERS else (X, Z), settings(name)):
            yield name, x, {**place, "norm": norm}
    for name in TRIGONOMETRIC:
        for place, norm, kind, even in product(places(name)[1:3], (None, "ortho"), (1, 2, 3, 4), (True, False)):
            if not (kind == 4 and even):  # whose matrix has nothing to even out
                yield name, X, {**place, "norm": norm, "type": kind, "orthogonalize": even}
    for name, n in product(("fht", "ifht"), (5, 6)):
        yield from ((name, X[..., :n], {"dln": 0.1, "mu": 0.5, **options}) for options in ({}, {"offset": 0.2, "bias": 0.3}))
    for name in ("fftshift", "ifftshift"):
        yield from ((name, x, options) for x in (X, Z) for options in ({}, {"axes": 1}, {"axes": (0, -1)}))


def like(x, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(np.shape(x)) + (1j * rng.standard_normal(np.shape(x)) if np.iscomplexobj(x) else 0.0)


@pytest.mark.slow
def test_values_tangents_and_cotangents():
    count = 0
    for name, x, options in calls():
        ours, scipys = getattr(fft, name), getattr(sf, name)
        safe = {key: option for key, option in options.items() if key != "overwrite_x"}
        wanted, t = scipys(x, **safe), like(x, 1)
        before = x.copy()
        value, tangent = dualad.jvp(lambda x: ours(x, **options), (x,), (t,))
        pulled, pull = vjp(lambda x: ours(x, **options), x)
        assert ours(x, **safe).tobytes() == value.tobytes() == pulled.tobytes() == wanted.tobytes(), (name, options)
        assert tangent.tobytes() == scipys(t, **safe).tobytes(), (name, options)
        g = like(wanted, 2)
        (back,) = pull(g)
        assert back.dtype == x.dtype
        np.testing.assert_allclose(np.sum(back * t).real, np.sum(g * tangent).real, rtol=1e-11, err_msg=f"{name} {options}")
        assert x.tobytes() == before.tobytes(), "what is traced is not overwritten"
        count += 1
    assert count > 300


def test_directions_second_order_and_single_precision():
    for name in TRANSFORMS + TRIGONOMETRIC:
        ours, scipys = getattr(fft, name), getattr(sf, name)
        columns = dualad.jacobian(ours)(X[0])
        for k in ((0, 0), (4, 5)):
            unit = np.zeros(X[0].shape)
            unit[k] = 1.0
            np.testing.assert_allclose(columns[(..., *k)], scipys(unit), atol=1e-14, err_msg=name)
        power = lambda x: np.sum(np.abs(ours(x)) ** 2)
        bent = dualad.jvp(grad(power), (X[0],), (X[1],))[1]
        np.testing.assert_allclose(bent, grad(power)(X[1]), rtol=1e-10, atol=1e-12)  # of a square, the gradient is linear
        single = X[0].astype(np.float32)
        value, tangent = dualad.jvp(ours, (single,), (single,))
        assert value.dtype == tangent.dtype == scipys(single).dtype
        assert grad(lambda x: np.sum(np.abs(ours(x))))(single).dtype == np.float32


def test_frequencies():
    for name in ("fftfreq", "rfftfreq"):
        value, slope = dualad.jvp(lambda d: getattr(fft, name)(7, d), (0.5,), (1.0,))
        assert value.tobytes() == getattr(sf, name)(7, 0.5).tobytes()
        np.testing.assert_allclose(slope, -value / 0.5)
    assert fft.next_fast_len(13) == sf.next_fast_len(13)


def test_they_compile_and_are_found_in_adapted_code():
    pytest.importorskip("llvmlite")

    def filtered(x):
        return sf.irfft(sf.rfft(x)[:3], 9) * sf.dct(x, n=9, norm="ortho")

    adapted, x = dualad.adapt(filtered), X[0, 0]
    assert dualad.jit(adapted)(x).tobytes() == filtered(x).tobytes()
    slope = fft.irfft(np.fft.rfft(np.eye(6))[:, :3], 9).T * sf.dct(x, n=9, norm="ortho")[:, None]
    slope += sf.irfft(sf.rfft(x)[:3], 9)[:, None] * sf.dct(np.eye(6), n=9, norm="ortho").T
    np.testing.assert_allclose(dualad.jacobian(adapted)(x), slope, atol=1e-14)
    total = lambda x: np.sum(adapted(x))
    np.testing.assert_allclose(dualad.jit(grad(total))(x), np.sum(slope, axis=0), rtol=1e-12)


def test_orthogonalize_of_complex_arrays_is_refused_in_reverse():
    """SciPy ignores it there, so the values are those without it."""
    for name, options in product(TRIGONOMETRIC, ({"orthogonalize": True}, {"norm": "ortho", "orthogonalize": False})):
        ours = lambda x, name=name, options=options: getattr(fft, name)(x, **options)
        assert dualad.jvp(ours, (Z,), (Z,))[1].tobytes() == getattr(sf, name)(Z, **options).tobytes()
        with pytest.raises(NotImplementedError, match=f"scipy.fft.{name} of a complex array has no VJP with orthogonalize="):
            vjp(ours, Z)[1](Z)


def test_bad_calls_are_named():
    cases = [
        (lambda x: fft.fft(x, axis=5), "axis 5 is out of bounds"),
        (lambda x: fft.fftn(x, s=(2, 2), axes=(0,)), "axes and shape arguments have to be of the same length"),
        (lambda x: fft.rfft(x + 0j), "real sequence"),
        (lambda x: fft.fft(x, norm="unitary"), "norm"),
        (lambda x: fft.set_workers(x), "scipy.fft.set_workers has no derivative here"),
    ]
    check_refused(X[0], cases)
