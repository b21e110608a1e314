"""Sparse derivatives: which input an output depends on, groups of columns that one tangent serves, and the entries recovered."""
