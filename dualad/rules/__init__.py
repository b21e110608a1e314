"""The table of rules: the only place where a derivative is written. One room a family of functions."""

from . import batching, indexing, joins, linalg, reductions, shapes, sparse, ufuncs  # noqa: F401
from .kinds import ROWS, bilinear, composite, constant, elementwise, explicit, joined, linear, real_linear, refused, trust_rows

__all__ = ["ROWS", "bilinear", "composite", "constant", "elementwise", "explicit", "joined", "linear", "real_linear",
           "refused"]

trust_rows()
