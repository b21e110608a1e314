"""Selections: what a traced mask selects, as programs see it, and what is known of masks and lengths."""

import numpy as np
import pytest
from interpreted import recorded as traced

from dualad.graph.selection import Selection
from dualad.graph.trace import Trace, TraceError

X = np.array([[0.3, -0.7, 0.0], [0.9, -0.2, 0.55]])


def test_a_selection_is_the_full_array_and_the_mask():
    with Trace() as trace:
        x = trace.input(X)
        s = x[x > 0.2]
        assert type(s) is Selection and isinstance(s, np.ndarray) and s.dtype == float and s.ndim == 1
        assert s.primal.shape == s.mask.shape == X.shape
        assert (
            np.size(s) is s.size
            and np.shape(s)[0] is s.size
            and np.ndim(s) == 1
            and np.result_type(s, np.float32) == np.float64
            and not np.iscomplexobj(s)
        )
        rows = x[x[:, 0] > 0.2]
        assert rows.ndim == 2 and rows.shape[1] == 3
        assert repr(s).startswith("Selection(Symbol(")


def test_no_operation_of_a_program_has_a_length_that_depends_on_data():
    def f(x):
        y = x.copy()
        y[y > 0.2] = np.sqrt(y[y > 0.2]) / y[y > 0.2].sum()
        return y

    program = traced(f, X)
    assert {out.shape for operation in program.operations for out in operation.outputs} == {(), X.shape}
    for data in (X, X + 1.0, X * 0.5, -np.abs(X)):
        np.testing.assert_array_equal(program.run(data)[0], f(data))


def test_the_length_is_a_number_of_python_that_is_asked_once():
    program = traced(lambda x: x * x[x > 0.0].size + x[x > 0.0].shape[0] * 2, X.astype(np.float32))
    assert [operation.outputs[0].kind for operation in program.operations].count("python") == 2  # the length, and twice it
    for data in (X, -X, X + 5.0):
        data = data.astype(np.float32)
        (got,) = program.run(data)
        n = data[data > 0.0].size
        np.testing.assert_array_equal(got, data * n + n * 2)
        assert got.dtype == np.float32


EQUAL = {
    "itself": lambda x: (x > 0.0,) * 2,
    "made again": lambda x: (x > 0.0, x > 0.0),
    "made again of a part": lambda x: (np.sin(x[:, ::2]) > 0.0, np.sin(x[:, ::2]) > 0.0),
    "of constants": lambda x: (x > np.ones(3), x > np.ones(3)),
}
DIFFERENT = {
    "another number": lambda x: (x > 0.0, x > 0.5),
    "another function": lambda x: (x > 0.0, x >= 0.0),
    "another array": lambda x: (x > 0.0, 2.0 * x > 0.0),
    "its complement": lambda x: (x > 0.0, ~(x > 0.0)),
    "the other order": lambda x: (x[0] > x[1], x[1] > x[0]),
    "another constant": lambda x: (x > np.ones(3), x > np.array([1.0, 1.0, -0.0])),
    "another part": lambda x: (x[0] > 0.0, x[1] > 0.0),
}


@pytest.mark.parametrize("name", [*EQUAL, *DIFFERENT])
def test_which_masks_are_the_same(name):
    with Trace() as trace:
        x = trace.input(X)
        one, other = (EQUAL | DIFFERENT)[name](x)
        whole = np.zeros_like(x, shape=one.shape)
        if name in EQUAL:
            assert type(whole[one] + whole[other]) is Selection
        else:
            with pytest.raises(TraceError, match="selections by different masks meet"):
                whole[one] + whole[other]
            whole[one] = 1.0
            with pytest.raises(TraceError, match="selections by different masks meet"):
                whole[one] = whole[other]


def test_masks_of_another_shape_and_kind_are_no_index():
    with Trace() as trace:
        x = trace.input(X)
        for mask in (x[:, :1] > 0.5, x[0] > 0.5):
            for use in (x.__getitem__, lambda mask: x.copy().__setitem__(mask, 1.0)):
                with pytest.raises(IndexError, match="boolean index did not match indexed array: the mask has shape"):
                    use(mask)
        with pytest.raises(IndexError, match="only integers"):
            x[x]
        with pytest.raises(TraceError, match="a traced mask and other arrays"):
            x[x[:, 0] > 0.0, np.array([0, 1])]
        with pytest.raises(TypeError, match="cannot cast"):
            k = trace.input(np.arange(3))[x[0] > 0.0]
            k += 0.5
