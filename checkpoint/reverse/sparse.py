"""Sparse Jacobians by rows, or by rows and columns: the cotangents of a colouring, pulled back together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualad.core.dispatch import dtype_of
from dualad.forward.seeding import chosen, shape_of, with_arguments, without_aux
from dualad.forward.streaming import chunk_size
from dualad.sparse.compressed import Colored, Compressed, check_columns, check_rows
from dualad.sparse.operators import make_operator
from dualad.sparse.vectors import Flattened, flat, like, sizes
from dualad.sparse.verbs import sparse_function
from dualad.support.hints import Chunk

from .recording import Recording

__all__ = ["recorded_operator", "sparse_jacobian"]

ALL = ("forward", "reverse", "both", "symmetric"), ""


class CompressedRows(Compressed):
    """The sparse Jacobian of a function, by forward mode where the colouring has columns and by reverse mode where it has rows."""

    def entries(self, colors: Any, args: tuple[Any, ...], kwargs: dict[str, Any], f: Callable[..., Any] | None = None) -> tuple[Any, ...]:
        if colors.rows is None:
            return super().entries(colors, args, kwargs, f)
        f = f or self.f
        positions, _ = chosen(args, self.argnums, self.where)
        g = with_arguments(f, args, kwargs, positions)
        products, aux = [], None
        if colors.forward_colors:
            pushed = self.products(g, args, positions, colors)
            products, aux = [pushed.flat], pushed.aux
        recording = Recording(g, tuple(args[i] for i in positions), self.where, self.options["nan_safe"], self.options["has_aux"])
        products.append(self.pulled(recording, colors))
        data = np.take(np.concatenate(products) if len(products) > 1 else products[0], colors.found_at)
        return recording.value, data, *(aux or [recording.aux] if self.options["has_aux"] else [])

    def pulled(self, recording: Recording, colors: Any) -> np.ndarray:
        """Return the cotangents along the rows of a colouring, flat: (colours, columns)."""
        check_columns(colors, recording.leaves, self.options["holomorphic"], self.where)
        check_rows(colors, sum(sizes(recording.values)), self.where)
        count = colors.reverse_colors
        seeds = np.split(colors.cotangents, np.cumsum(sizes(recording.values))[:-1], axis=1)
        largest = max(
            dtype_of(x).itemsize * size for part in (recording.leaves, recording.values) for x, size in zip(part, sizes(part), strict=True)
        )
        lanes = chunk_size(count, largest, self.chunk)
        rows = []
        for start in range(0, count, lanes):
            stop = min(start + lanes, count)
            pairs = [
                (node, np.reshape(seed[start:stop], (stop - start, *shape_of(value))).astype(dtype_of(value)))
                for node, seed, value in zip(recording.nodes, seeds, recording.values, strict=True)
                if node is not None
            ]
            pulled = recording.pull_units(pairs, stop - start) if pairs else [None] * len(recording.leaves)
            shares = [
                np.zeros((stop - start, size)) if g is None else np.reshape(g, (stop - start, size))
                for g, size in zip(pulled, sizes(recording.leaves), strict=True)
            ]
            rows.append(shares[0] if len(shares) == 1 else np.concatenate(shares, axis=1))
        return np.reshape(rows[0] if len(rows) == 1 else np.concatenate(rows), (-1,)) if rows else np.zeros(0)


def sparse_jacobian(
    f: Callable[..., Any], argnums: Any, chunk: Chunk, sparsity: Any, verify: bool, holomorphic: bool, nan_safe: bool, has_aux: bool
) -> Callable[..., Any]:
    """Return the function that computes the sparse Jacobian, and aux where there is one."""
    g = without_aux(f, has_aux, "jacobian")
    colored = Colored(g, argnums, sparsity, "auto", ALL, "jacobian")
    options = {"holomorphic": holomorphic, "nan_safe": nan_safe, "has_aux": has_aux, "valued": False}
    return sparse_function(f, CompressedRows(f, argnums, colored, chunk, "jacobian", **options), verify, g)


def recorded_operator(
    f: Callable[..., Any], argnums: Any, args: tuple[Any, ...], kwargs: dict[str, Any], holomorphic: bool = False, nan_safe: bool = False
) -> Any:
    """Return the Jacobian at a point as a linear operator: f is recorded once, products sweep over the recording."""
    where = "jacobian.linear_operator"
    given = Flattened(f, args, kwargs, argnums, where)
    recording = Recording(given.f, given.primals, where, nan_safe, False)
    outs = recording.values

    def matvec(v: Any) -> Any:
        return flat(recording.push(given.unflatten(v)))

    def rmatvec(w: Any) -> Any:
        parts = np.split(np.ravel(w), np.cumsum(sizes(outs))[:-1])
        return flat(recording.pull_leaves([like(part, out) for part, out in zip(parts, outs, strict=True)]))

    return make_operator(given.leaves, outs, holomorphic, matvec, rmatvec)
