"""chain of a compiled step: blocks of steps in one call. The derivatives of the same step, not compiled, under every schedule and block."""

import copy

import numpy as np
import optree
import pytest
from calls import bits
from compiled_chains import CASES, GRID, JITTED, ROWS, N, driven, random, total

pytest.importorskip("llvmlite")

import dualad
from checkpoint import CTZ, Disk, Memory, Periodic, Revolve, Stats, StoreAll, chain, grad, jacobian, value_and_grad, vjp
from checkpoint.loops import compiled as segments
from checkpoint.loops import stepper
from checkpoint.schedules import Mixed
from dualad.codegen import chain_kernels as loops


def program(name, compile, **options):
    step, args, more = CASES[name]
    step = JITTED[step] if compile else step
    steps = {} if "inputs" in more else {"steps": N}

    def loss(*args):
        return total(chain(step, *args[: len(CASES[name][1])], **more, **steps, **options))

    return loss, args


def gradient(name, compile, **options):
    loss, args = program(name, compile, **options)
    floating = tuple(range(len(args)))
    return value_and_grad(lambda tree: loss(*tree))(tuple(args)) if name != "a mixed state" else value_and_grad(
        lambda u, energy, c, shape: loss({**args[0], "u": u, "energy": energy}, c, shape), argnums=floating
    )(args[0]["u"], args[0]["energy"], *args[1:])  # fmt: skip


def close(a, b, rtol):
    for x, y in zip(optree.tree_leaves(a), optree.tree_leaves(b), strict=True):
        assert type(x) is type(y) and getattr(x, "dtype", None) == getattr(y, "dtype", None)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_are_those_of_the_step_itself(name):
    close(gradient(name, True), gradient(name, False), 1e-4 if name == "float32" else 1e-11)


@pytest.mark.parametrize("name", ["numbers", "a mixed state", "inputs and outs", "in place", "products of numbers", "products of a few"])
def test_same_bits_under_every_schedule_block_and_storage(name, tmp_path):
    reference = bits(gradient(name, True))
    options = [{"block": n} for n in (1, 2, 5, N, 1000)]
    options += [{"schedule": s, "block": n} for s in (CTZ(), CTZ("bisect"), Revolve(1), Revolve(3), StoreAll(), Periodic()) for n in (1, 3)]
    options += [{"storage": Disk(tmp_path), "block": 4}, {"memory": "1 MB"}, {"check": True, "block": 2}, {"schedule": CTZ()}]
    for each in options:
        assert bits(gradient(name, True, **each)) == reference, each


@pytest.mark.parametrize("name", ["numbers", "inputs and outs"])
def test_gradients_by_a_part_of_the_arguments(name):
    loss, args = program(name, True)
    plain, _ = program(name, False)
    for i in range(1, len(args)):
        close(grad(loss, argnums=i)(*args), grad(plain, argnums=i)(*args), 1e-11)
    if name == "inputs and outs":
        f = lambda rows, compile: chain(JITTED[driven] if compile else driven, *args, inputs=rows, outputs=True)[1]["norm"]
        close(jacobian(lambda rows: f(rows, True))(ROWS), jacobian(lambda rows: f(rows, False))(ROWS), 1e-11)


def test_counts_are_of_steps():
    stats = Stats()
    loss, args = program("numbers", True, stats=stats, schedule=Revolve(3), block=4)
    grad(loss, argnums=(0, 1))(*args)
    blocks = -(-N // 4)
    assert (stats.steps, stats.pulls) == (N, N)
    assert stats.advances > N + N - blocks and stats.peak_states == 3 + 3 and stats.peak_bytes == 6 * 24
    assert "10 blocks of 4 compiled steps, 3 states between them saved" in stats.reason


def test_the_last_block_is_made_once():
    step, args, _ = CASES["numbers"]
    for steps, advances in ((8, 8), (16, 16 + 7), (13, 13 + 4), (17, 17 + 7)):
        stats = Stats()
        _, pullback = vjp(lambda *args: total(chain(JITTED[step], *args, steps=steps, schedule=StoreAll(), block=8, stats=stats)), *args)
        first = pullback(1.0)
        assert stats.advances == advances
        reference = vjp(lambda *args: total(chain(JITTED[step], *args, steps=steps, schedule=StoreAll(), block=1)), *args)[1](1.0)
        assert bits(first) == bits(pullback(1.0)) == bits(reference)  # a second reverse sweep makes all states again


@pytest.mark.parametrize("name", ["numbers", "inputs and outs"])
@pytest.mark.parametrize("pace", [1, 3, 5])
def test_long_blocks_are_made_and_pulled_in_calls_of_some_steps(name, pace, monkeypatch):
    """So that Ctrl-C is heard between them; the bits are those of one call, also where an odd number of steps is left."""
    calls, timed = [], segments.Pace.timed

    def watched(self, call, steps, *arguments):
        calls.append(steps)
        timed(self, call, steps, *arguments)
        self.steps = pace

    expected = [bits(grad(loss, argnums=(0, 1))(*args)) for loss, args in (program(name, True), program(name, True, block=4))]
    monkeypatch.setattr(segments.Pace, "timed", watched)
    monkeypatch.setattr(segments.Pace, "__init__", lambda self: setattr(self, "steps", pace))
    got = [bits(grad(loss, argnums=(0, 1))(*args)) for loss, args in (program(name, True), program(name, True, block=4))]
    assert got == expected and max(calls) <= pace and len(calls) >= 2 * (N // pace)


def test_states_that_all_fit_are_made_once():
    for options in ({"block": 4}, {"block": 4, "memory": "1 MB"}):
        stats = Stats()
        loss, args = program("numbers", True, stats=stats, **options)
        grad(loss, argnums=(0, 1))(*args)
        last = N - 4 * (N // 4)  # the block that is made again
        assert "whose states stay in memory" in stats.reason and stats.advances == N + last - 1
        assert stats.peak_bytes == stats.peak_states * 24 and N <= stats.peak_states <= N + 4
    for options in ({"check": True}, {"schedule": Revolve(9)}):
        grad(program("numbers", True, stats=stats, block=4, **options)[0])(*args)
        assert "states between them saved" in stats.reason


SUMS = {
    "a factor": (lambda k, x, c: x * c, True),
    "in slices": (lambda k, x, c: np.concatenate([x[1:] * c[1:], x[:1]]), True),
    "of an angle": (lambda k, x, c: x + np.sin(1e6 * c), False),  # its loops run again where one is too large
    "of a sum": (lambda k, x, c: 0.1 * x * np.sum(c[:3]), True),
    "equal ones": (lambda k, x, c: x + c, False),  # the cotangent of x is that of c
    "none": (lambda k, x, c: 1.5 * x, False),
}


@pytest.mark.parametrize(("name", "threads"), [*((name, None) for name in SUMS), ("a factor", 2)])
def test_shares_of_parameters_are_added_where_they_are_computed(monkeypatch, name, threads):
    step, inside = SUMS[name]
    rows, made = (300, 300) if threads else (7, 9), []
    monkeypatch.setattr(stepper, "emit_pull", lambda *args: made.append(loops.emit_pull(*args)) or made[-1])
    x, c = random.uniform(size=rows), random.uniform(0.5, 1.5, size=rows)
    f, plain = (grad(lambda x, c, s=s: total(chain(s, x, c, steps=4)), argnums=(0, 1)) for s in (dualad.jit(step, threads=threads), step))
    close(f(x, c), plain(x, c), 1e-12)
    assert made[0].shares == ([] if inside else [0])


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 9])
def test_chains_shorter_than_the_schedules_slots(steps):
    compiled = dualad.jit(lambda k, x: x * 0.9)
    for schedule in (CTZ(), CTZ("bisect"), Revolve(1), Revolve(5), StoreAll(), Periodic(), Periodic(1), Mixed(1), Mixed(3)):
        assert grad(lambda x, schedule=schedule: chain(compiled, x, steps=steps, schedule=schedule))(1.0) == pytest.approx(0.9**steps)


def test_where_llvm_fails_the_steps_are_made_one_by_one(monkeypatch):
    def fail(self, *arguments):
        raise RuntimeError("no machine code today")

    monkeypatch.setattr(loops.ChainKernels, "compile", fail)
    for step in (lambda k, x: x * 0.9, lambda k, x: x * 0.9 if x > 0.1 else x):
        step = dualad.jit(step)
        f = lambda x, step=step: chain(step, x, steps=5)
        with pytest.warns(UserWarning, match="LLVM failed on <lambda>.*no machine code today"):
            assert grad(f)(1.0) == pytest.approx(0.9**5)
        assert grad(f)(1.0) == pytest.approx(0.9**5)  # warned once


X = np.array([0.3, 0.5, 0.7])


def shrink(k, x):
    return x * 0.9


# name: the step, how it is compiled, the options of the chain
ODD = {
    "static arguments": (shrink, {"static_argnums": (0,)}, {}),
    "a leaf that is only written": (lambda k, s: (s[0] * 0.9, s[0] * 0.8), {}, {}),
    "values that are not finite": (lambda k, x: (x * 0.9, -np.inf), {}, {"outputs": True}),
    "NumPy's backend": (shrink, {"backend": "numpy"}, {}),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_steps(name):
    step, compiled, options = ODD[name]

    def loss(x, step):
        out = chain(step, (x, x) if "leaf" in name else x, steps=5, **options)
        return np.sum((out[0] if type(out) is tuple else out) ** 2)

    np.testing.assert_allclose(grad(loss)(X, dualad.jit(step, **compiled)), grad(loss)(X, step), rtol=1e-14)


def test_rows_and_parameters_of_one_kind_are_kept_apart():
    step, u, powers = dualad.jit(lambda k, x, u: x * 0.9 + u), np.arange(6.0), 0.9 ** np.arange(5, -1, -1)
    for options, given in (({"inputs": u}, ()), ({"steps": 6}, (u[3],))) * 2:
        found = grad(lambda x, o=options, given=given: np.sum(chain(step, x, *given, **o) ** 2))(X)
        close(found, 2 * 0.9**12 * X + 2 * 0.9**6 * np.sum(powers * (given[0] if given else u)), 1e-13)


def test_cotangents_that_are_traced():
    norm = lambda x, w: np.sum(w * chain(dualad.jit(shrink), x, steps=5) ** 2)
    assert grad(lambda w: np.sum(grad(norm)(X, w)))(1.5) == pytest.approx(2 * 0.9**10 * np.sum(X))
    np.testing.assert_allclose(dualad.jacobian(lambda w: grad(norm)(X, w))(np.ones(3)), np.diag(2 * 0.9**10 * X))


LAYOUTS = [np.asfortranarray(GRID), GRID[::-1, ::2], GRID[3::4, 1:-2:3], GRID.astype(np.float32)]


@pytest.mark.parametrize("x", LAYOUTS, ids=["F", "reversed", "strided", "float32"])
def test_states_in_every_layout(x):
    step = lambda k, x, c: c * np.roll(x, 1, 0) + np.sin(x) * x.dtype.type(0.1)
    c, rtol = x.dtype.type(0.7), 1e-4 if x.dtype == np.float32 else 1e-12
    compiled, plain = (lambda x, f=f: chain(f, x, c, steps=9, schedule=Revolve(2)) for f in (dualad.jit(step), step))
    close(compiled(x), plain(x), rtol)
    close(grad(lambda x: np.sum(compiled(x) ** 2))(x), grad(lambda x: np.sum(plain(x) ** 2))(x), rtol)
    assert x.flags.writeable


def test_what_goes_beside_the_value_may_be_anything_that_is_no_number():
    """A type among the results of a compiled function has attributes `shape` and `dtype`, which are none."""
    aux = {"type": np.float64, "name": "loss", "none": None, "flag": True, "count": 3, "dtype": np.dtype("f4")}
    f = dualad.jit(lambda x: (np.sum(x**2), {**aux, "first": x[0]}))
    for verb in (grad, jacobian, dualad.gradient, dualad.jacobian):
        gradient, overhead_bytes = verb(f, has_aux=True)(X)
        np.testing.assert_array_equal(gradient, 2 * X)
        assert overhead_bytes == {**aux, "first": X[0]}, verb


TABLE = np.array([0.1, 0.2, 0.3])


def put_out(k, s):
    return 0.5 * s, TABLE


def reversed_table(k, s):
    return 0.5 * s * s, (TABLE[::-1], np.arange(3), s[0] * 2.0)


def filled(k, s):
    w = np.zeros_like(s)
    w[0] = 0.25
    return 0.5 * s + w, w


def scattered(k, s):
    w = np.full_like(s, 0.1)
    w[k % 3] = 1.0
    return 0.5 * s * w + 0.1, w


@pytest.mark.parametrize("step", [put_out, reversed_table, filled, scattered])
def test_constants_that_a_step_returns_or_writes_into(step):
    def f(step):
        def loss(x):
            final, outs = chain(step, x, steps=4, outputs=True)
            return np.sum(final**2), outs

        return loss

    x, stats = np.array([0.3, -0.7, 1.1]), Stats()
    (value, outs), g = value_and_grad(f(step), has_aux=True)(x)
    for other in (value_and_grad(f(dualad.jit(step)), has_aux=True), dualad.jit(value_and_grad(f(step), has_aux=True))):
        (got, got_outs), slope = other(x)
        np.testing.assert_allclose(got, value, rtol=1e-14)
        np.testing.assert_allclose(slope, g, rtol=1e-13)
        optree.tree_map(np.testing.assert_allclose, got_outs, outs)
    chain(dualad.jit(step), x, steps=4, outputs=True)
    grad(lambda x: np.sum(chain(dualad.jit(step), x, steps=4, outputs=True, stats=stats)[0]))(x)
    assert "compiled steps" in stats.reason


def test_a_step_that_is_a_constant():
    x = np.ones(3)
    np.testing.assert_array_equal(chain(dualad.jit(lambda k, s: TABLE * 1.0), x, steps=3), TABLE)
    np.testing.assert_array_equal(grad(lambda x: np.sum(chain(dualad.jit(lambda k, s: TABLE), x, steps=3) * x))(x), TABLE)


@pytest.mark.long
def test_compiled_steps_that_are_made_one_by_one_are_compared_up_to_rounding():
    @dualad.jit
    def step(k, s, p):
        v = p.copy()
        for q in range(1, 40):
            v[q] += 0.3 * v[q - 1]
        return 0.33 * s + 0.08 * np.tanh(0.2 * np.mean(v) + 0.1 * s)

    state, p = np.random.default_rng(0).uniform(-1, 1, (9, 1000)), np.random.default_rng(1).uniform(-1, 1, (1000, 9))
    f = lambda p, **options: np.sum(chain(step, state, p, steps=5, **options))
    checked = grad(lambda p: f(p, storage=Memory(copy=copy.deepcopy), check=True))(p)
    np.testing.assert_allclose(checked, grad(f)(p), rtol=1e-10)
