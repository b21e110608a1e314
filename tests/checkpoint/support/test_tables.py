"""Tables: the same cells as text, Markdown and HTML; what notebooks show."""

from xml.etree import ElementTree

import numpy as np
import pytest

from checkpoint import CTZ, Stats, chain, compare, explain, grad, plan
from checkpoint.support.tables import html, markdown, text


def stats():
    filled = Stats()
    grad(lambda x: chain(lambda k, x: x * x, x, steps=3, stats=filled))(1.1)
    return filled


SHOWN = {
    "Tradeoff": compare(steps=100, state_bytes="8 MB", schedules=[CTZ()]),
    "Plan": plan(1000, "8 MB", "1 GB"),
    "Stats": stats(),
    "Explanation": explain(lambda x, y: np.where(x < y, x * y, 0.0), 1.0, 2.0),
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_notebooks_show_tables(shown):
    table = ElementTree.fromstring(shown._repr_html_())
    rows = [["".join(cell.itertext()) for cell in row] for row in table if row.tag == "tr"]
    lines = [line for line in shown._repr_markdown_().splitlines() if line.startswith("| ")]
    assert [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines if not line.startswith("| ---")] == [
        [cell.strip() for cell in row] for row in rows
    ]
    assert all(len(row) == len(rows[0]) for row in rows)


def test_text_is_broken_at_columns_of_the_terminal_and_cells_are_escaped():
    cells = [("name", "aa", "bb", "cc"), ("x", "1", "2", "3")]
    assert text(cells) == "name  aa  bb  cc\nx      1   2   3"
    assert text(cells, 12) == "name  aa  bb\nx      1   2\n\nname  cc\nx      3"
    assert text(cells, 1).count("name") == 3  # one column at least
    assert "a\\|b" in markdown([("h", "i"), ("a|b", "1")]) and "&lt;b&gt;" in html([("h", "i"), ("<b>", "1")]), "cells are escaped"
