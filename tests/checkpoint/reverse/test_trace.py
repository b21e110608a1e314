"""explain: the trace as a table, in Markdown and for Graphviz."""

import numpy as np
import pytest

from checkpoint import chain, explain


def textbook(x1, x2):
    return np.log(x1) + x1 * x2 - np.sin(x2)


def test_markdown_graph_tangents_and_wrong_calls():
    explanation = explain(textbook, 2.0, 5.0)
    lines = {line.number: line for line in explanation.lines}
    assert [round(float(lines[i].value), 3) for i in (1, 2, 3, 4, 5)] == [0.693, 10.0, 10.693, -0.959, 11.652]
    assert [float(lines[i].adjoint) for i in (5, 3, 4, 2, 1)] == [1, 1, -1, 1, 1]
    assert explanation.to_markdown().splitlines()[0] == "| node | operation | value | tangent | adjoint |"
    dot = explanation.to_dot()
    assert dot.startswith("digraph") and '"v1" -> "v3";' in dot and dot.endswith("}")
    assert explanation.output == 5 and explain(lambda x: 3.0, 1.0).output is None
    assert explain(textbook, 2.0, 5.0, seed=1).lines[-1].tangent == pytest.approx(2.0 - np.cos(5.0)), "of the seeded input"
    with pytest.raises(ValueError, match="seed is 2: give the number of an input, 0 to 1"):
        explain(textbook, 2.0, 5.0, seed=2)
    with pytest.raises(TypeError, match="use jacobian"):
        explain(lambda x: x * np.ones(2), 1.0)


def test_nodes_that_the_result_does_not_need_are_marked():
    def f(x):
        np.exp(x)
        return x * 2.0

    explanation = explain(f, 1.0)
    assert [line.needed for line in explanation.lines] == [True, False, True]
    assert "(not needed)" in str(explanation) and "dashed" in explanation.to_dot()


def test_order_is_topological_with_arrays_and_assignments():
    def f(x):
        y = np.zeros_like(x)
        y[1:] = x[:-1] * 2.0
        y += np.sin(x)
        return np.sum(y)

    lines = explain(f, np.arange(3.0)).lines
    assert all(parent < line.number for line in lines for parent in line.parents)
    np.testing.assert_allclose(lines[0].adjoint, [3.0, 2.0 + np.cos(1.0), np.cos(2.0)])


def test_a_chain_is_one_operation():
    lines = explain(lambda x: 2.0 * chain(lambda k, x: x * x, x, steps=3), 1.5).lines
    assert [line.operation for line in lines] == ["input 1", "chain(v0)", "part(v1)", "multiply(2, v2)"]
    assert (lines[2].tangent, lines[3].tangent, lines[0].adjoint) == (8 * 1.5**7, 16 * 1.5**7, 16 * 1.5**7)
