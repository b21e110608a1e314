"""The table of rules: the only place where a derivative is written. One room a family of functions."""

from . import (  # noqa: F401
    batching,
    calculus,
    constants,
    creation,
    decompositions,
    fft,
    indexing,
    late,
    layout,
    least_squares,
    linalg,
    memory,
    polynomials,
    products,
    reductions,
    scimath,
    shapes,
    sparse,
    statistics,
    ufunc_methods,
    ufuncs,
    writing,
)
from .kinds import ROWS, bilinear, composite, constant, elementwise, explicit, joined, linear, real_linear, refused, trust_rows

__all__ = ["ROWS", "bilinear", "composite", "constant", "elementwise", "explicit", "joined", "linear", "real_linear", "refused"]

trust_rows()
