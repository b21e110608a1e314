"""Checking derivatives against differences, for tests of your own."""

from .derivatives import check_derivatives, differences

__all__ = ["check_derivatives", "differences"]
