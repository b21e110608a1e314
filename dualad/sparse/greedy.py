"""Greedy colourings: sets of colours are the bits of Python's integers, so a colouring takes time in proportion to the entries.

Two columns that share a row must differ in colour (distance 2 in the bipartite graph of rows and columns); in a star colouring two
neighbours differ, and so do the colours on every path of four vertices, at least three of them (Gebremedhin, Manne & Pothen,
SIAM Review 47, 2005, sections 3 and 5).
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from ..support.costs import ONE_BY_ONE


def natural(matrix):
    """As the columns are numbered: bands get as many colours as there are of them."""
    return range(matrix.shape[1])


def largest_first(matrix):
    """First the columns whose rows have most entries."""
    return np.argsort(-degrees(matrix), kind="stable").tolist()


def smallest_last(matrix):
    """Last the column whose rows have fewest entries, before it the one that has fewest without that, and so on.

    Rows of many entries, which all columns in them share alike, are not counted again.
    """
    columns = matrix.tocsc()
    counts = np.diff(matrix.indptr)
    short = counts <= ONE_BY_ONE
    rows, row_ends = matrix.indices.tolist(), matrix.indptr.tolist()
    own, ends = columns.indices.tolist(), columns.indptr.tolist()
    degree = degrees(matrix).tolist()
    waiting: list[list[int]] = [[] for _ in range(max(degree, default=0) + 1)]
    for j, d in enumerate(degree):
        waiting[d].append(j)  # in order, so a heap
    order: list[int] = []
    gone, is_short, low = [False] * matrix.shape[1], short.tolist(), 0
    while len(order) < matrix.shape[1]:
        while not waiting[low]:
            low += 1
        j = heappop(waiting[low])
        if gone[j] or degree[j] != low:
            continue
        gone[j] = True
        order.append(j)
        for r in own[ends[j] : ends[j + 1]]:
            if is_short[r]:
                for k in rows[row_ends[r] : row_ends[r + 1]]:
                    if not gone[k]:
                        d = degree[k] = degree[k] - 1
                        heappush(waiting[d], k)
                        if d < low:
                            low = d
    return order[::-1]


def degrees(matrix):
    """Return for each column how many entries of other columns its rows have."""
    counts = np.diff(matrix.indptr)
    return np.bincount(matrix.indices, np.repeat(counts - 1, counts), matrix.shape[1]).astype(int)


ORDERS = {"natural": natural, "largest_first": largest_first, "smallest_last": smallest_last}


def columns_colored(matrix, order):
    """Return a colour for each column of a CSR matrix; columns that share a row differ."""
    columns = matrix.tocsc()
    rows, ends = columns.indices.tolist(), columns.indptr.tolist()
    taken = [0] * matrix.shape[0]  # colours in each row, as bits
    colors = [0] * matrix.shape[1]
    for j in order:
        own = rows[ends[j] : ends[j + 1]]
        used = 0
        for r in own:
            used |= taken[r]
        free = ~used & (used + 1)
        colors[j] = free
        for r in own:
            taken[r] |= free
    return numbers(colors)


def star_colored(matrix, order):
    """Return a colour for each row and column of a symmetric CSR matrix without diagonal: a star colouring.

    `near` has the colours of neighbours, `often` those of two of them, `hubs` those of neighbours that would begin a path in two colours.
    """
    entries, ends = matrix.indices.tolist(), matrix.indptr.tolist()
    count = matrix.shape[0]
    colors, near, often, hubs = ([0] * count for _ in range(4))
    first: dict = {}
    for v in order:
        neighbours = entries[ends[v] : ends[v + 1]]
        used, twice = near[v], often[v]
        for w in neighbours:
            color = colors[w]
            if color:
                used |= hubs[w]
                if twice & color:
                    used |= near[w]
        own = colors[v] = ~used & (used + 1)
        for w in neighbours:
            color = colors[w]
            if not near[w] & own:
                near[w] |= own
                first[w, own] = v
            else:
                if not often[w] & own:
                    often[w] |= own
                    hubs[first[w, own]] |= color
                hubs[v] |= color
            if twice & color:
                hubs[w] |= own
    return numbers(colors)


def numbers(bits):
    """Return the numbers of single bits."""
    return np.array([bit.bit_length() - 1 for bit in bits], np.int32)
