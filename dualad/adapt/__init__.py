"""`adapt`: other people's code, unedited, with versions of NumPy, SciPy and `math` that keep derivatives."""

from .adapt import adapt

__all__ = ["adapt"]
