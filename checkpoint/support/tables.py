"""Tables as text, Markdown and HTML, for terminals, files and notebooks."""

from collections.abc import Sequence

__all__ = ["html", "markdown", "text"]

Cells = Sequence[Sequence[str]]


def text(cells: Cells, width: int | None = None) -> str:
    """Write a table as aligned text.

    Parameters
    ----------
    cells : sequence of sequences of str
        The headings and then the rows; the first column is aligned left, the others right.
    width : int, optional
        Columns of the terminal: what does not fit continues below, with the first column again.

    Returns
    -------
    str

    Examples
    --------
    >>> print(text([("name", "first", "second"), ("a", "1", "20"), ("b", "300", "4")]))
    name  first  second
    a         1      20
    b       300       4
    >>> print(text([("name", "first", "second"), ("a", "1", "20")], width=12))
    name  first
    a         1
    <BLANKLINE>
    name  second
    a         20
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    blocks: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        taken = widths[0] + sum(2 + widths[other] for other in (*blocks[-1], column))
        if width is not None and taken > width and blocks[-1]:
            blocks.append([])
        blocks[-1].append(column)
    return "\n\n".join(
        "\n".join("  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in block)]).rstrip() for row in cells)
        for block in blocks
    )


def markdown(cells: Cells, left: int = 1) -> str:
    """Write a table in Markdown; so many columns are aligned left, the others right.

    Examples
    --------
    >>> print(markdown([("name", "number"), ("a|b", "1")]))
    | name | number |
    | --- | ---: |
    | a\\|b | 1 |
    """
    headings, *rows = cells
    rules = ["---" if i < left else "---:" for i in range(len(headings))]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (headings, rules, *rows))


def html(cells: Cells, caption: str = "", left: int = 1) -> str:
    """Write a table in HTML; so many columns are aligned left, the others right.

    Examples
    --------
    >>> print(html([("name", "number"), ("a<b", "1")], "two"))
    <table><caption>two</caption>
    <tr><th style="text-align: left">name</th><th style="text-align: right">number</th></tr>
    <tr><td style="text-align: left">a&lt;b</td><td style="text-align: right">1</td></tr>
    </table>
    """

    from html import escape  # with its table of names

    def row(cells: Sequence[str], tag: str) -> str:
        aligned = ("left" if i < left else "right" for i in range(len(cells)))
        return (
            "<tr>"
            + "".join(f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>' for cell, side in zip(cells, aligned, strict=True))
            + "</tr>"
        )

    headings, *rows = cells
    lines = [f"<table><caption>{escape(caption)}</caption>" if caption else "<table>", row(headings, "th")]
    return "\n".join([*lines, *(row(cells, "td") for cells in rows), "</table>"])
