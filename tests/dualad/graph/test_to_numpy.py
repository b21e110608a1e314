import numpy as np
import pytest
from interpreted import recorded as traced
from test_symbol import FUNCTIONS, X

from dualad.graph.passes import optimised
from dualad.graph.program import Program
from dualad.graph.to_numpy import compile_python
from dualad.rules.indexing import updated


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("passes", [lambda program: program, optimised])
def test_emitted_code_computes_the_same_bits_and_leaves_its_inputs_alone(name, passes):
    program, x = passes(traced(FUNCTIONS[name], X)), X.copy()
    call = compile_python(program).call
    for _ in range(2):
        for got, expected in zip(call(x), program.run(X), strict=True):
            np.testing.assert_array_equal(got, expected)
            assert type(got) is type(expected)
            assert not np.shares_memory(got, x)
    np.testing.assert_array_equal(x, X)


def test_the_source_reuses_buffers_and_assigns_in_place():
    def f(x):
        y = np.sin(x) * 2.0 + x
        y[1:] *= x[:-1]
        return y

    executable = compile_python(optimised(traced(f, np.ones(4))))
    lines = [line.split("  #")[0].rstrip() for line in executable.source.splitlines()]
    assert lines == [
        "def program(x0):",
        "    x1 = sin(x0)",
        "    x2 = multiply(x1, 2.0, out=x1)",
        "    x3 = add(x2, x0, out=x2)",
        "    x4 = x3[1:]",
        "    x5 = x0[:-1]",
        "    x6 = multiply(x4, x5)",
        "    x7 = x3; x7[1:] = x6",
        "    return (x7,)",
    ]
    assert executable.notes == "NumPy: 7 operations, 2 into buffers of operands, 1 assignments in place"


def test_a_buffer_that_is_seen_elsewhere_is_not_written():
    def f(x):
        y = np.sin(x)
        part = y[1:]
        z = y * 2.0
        return z, part, y.T

    program = optimised(traced(f, np.ones(4)))
    z, part, y = compile_python(program).call(X[0])
    np.testing.assert_array_equal(part, np.sin(X[0])[1:])
    np.testing.assert_array_equal(z, np.sin(X[0]) * 2.0)
    np.testing.assert_array_equal(y, np.sin(X[0]))


def test_a_number_is_written_through_a_view():
    def f(x):
        y = np.sum(x) * np.ones(())
        np.expand_dims(y, 0)[...] = 3.0
        return y

    def write(x):
        return updated(x, 0.0, ..., ((np.expand_dims, (0,), {}),))

    for fn, x in ((f, X[0]), (write, np.float64(2.0)), (write, np.array(2.0))):
        np.testing.assert_array_equal(compile_python(traced(fn, x)).call(x)[0], fn(x))


def test_large_arrays_are_dropped_after_their_last_use():
    source = compile_python(traced(lambda x: np.sum(np.cumsum(np.cumsum(x))), np.ones(1000))).source
    assert source.count("del ") == 2


def test_literals_that_have_no_text_are_bound_to_names():
    p = Program()
    x = p.input(np.ones(3))
    outs = [p.append(np.multiply, (x, c), {}, np.ones(3)) for c in (np.inf, -0.0, np.float32(2.0), 1j, np.float64(0.1))]
    p.outputs = outs
    got = compile_python(p).call(np.ones(3))
    for a, b in zip(got, (np.inf, -0.0, np.float32(2.0), 1j, np.float64(0.1)), strict=True):
        np.testing.assert_array_equal(a, np.ones(3) * b)
    assert np.signbit(got[1]).all()


def test_no_warnings_are_given():
    assert np.isinf(compile_python(traced(lambda x: 1.0 / x, np.ones(2))).call(np.zeros(2))[0]).all()


def test_the_layout_of_results_is_numpys():
    x = np.asfortranarray(X)
    (y,) = compile_python(optimised(traced(lambda x: (np.sin(x) * 2.0) + x, x))).call(x)
    assert y.flags.f_contiguous
