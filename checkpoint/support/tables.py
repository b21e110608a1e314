"""Tables as text, Markdown and HTML, for terminals, files and notebooks."""

from collections.abc import Sequence

Cells = Sequence[Sequence[str]]


def text(cells: Cells, width: int | None = None, left: int = 1) -> str:
    """Return a table as aligned text: headings first, the first `left` columns aligned left, the others right.
    With a `width`, columns that do not fit continue below, after the first column again."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    blocks: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        taken = widths[0] + sum(2 + widths[other] for other in (*blocks[-1], column))
        if width is not None and taken > width and blocks[-1]:
            blocks.append([])
        blocks[-1].append(column)
    return "\n\n".join(
        "\n".join("  ".join((str.ljust if i < left else str.rjust)(row[i], widths[i]) for i in (0, *block)).rstrip() for row in cells)
        for block in blocks
    )


def markdown(cells: Cells, left: int = 1) -> str:
    """Return a table in Markdown, the first `left` columns aligned left, the others right."""
    headings, *rows = cells
    rules = ["---" if i < left else "---:" for i in range(len(headings))]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (headings, rules, *rows))


def html(cells: Cells, caption: str = "", left: int = 1) -> str:
    """Return a table in HTML, the first `left` columns aligned left, the others right."""

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
