"""A picture of a coloured pattern."""

import numpy as np


def plot_coloring(coloring, ax=None):
    """Draw the entries of a pattern in the colours of the products that give them."""
    try:
        from matplotlib import colormaps, pyplot
    except ImportError:
        raise ImportError("plot() needs matplotlib, which is not installed: pip install 'dualad[plot]'") from None
    if ax is None:
        _, ax = pyplot.subplots(figsize=(5.5, 5.0), layout="constrained")
    height, width = coloring.shape
    rows, columns = coloring.rows_of_entries, coloring.indices
    product = coloring.found_at // height if coloring.columns is not None else coloring.found_at // width
    if coloring.mode == "both":
        ahead = coloring.forward_colors * height
        back = coloring.forward_colors + (coloring.found_at - ahead) // width
        product = np.where(coloring.found_at >= ahead, back, product)
    scale = colormaps["tab10"] if coloring.colors <= 10 else colormaps["tab20"] if coloring.colors <= 20 else colormaps["viridis"]
    shades = scale(product % scale.N if scale.N <= 20 else product / max(coloring.colors - 1, 1))
    size = (ax.get_window_extent().height * 72.0 / ax.figure.dpi / max(height, width)) ** 2
    ax.scatter(columns, rows, s=max(0.7 * size, 1.0), c=shades, marker="s", linewidths=0)
    ax.set(xlim=(-0.5, max(width, 1) - 0.5), ylim=(max(height, 1) - 0.5, -0.5), aspect="equal", xlabel="input", ylabel="output")
    ax.set_title(
        " and ".join(f"{count} colour{'s' * (count != 1)} of {what}" for count, what in coloring.parts())
        + f", {len(rows)} {'entries' if len(rows) != 1 else 'entry'}"
    )
    return ax
