"""The sweep: actions x step x pull x storage -> cotangent. It knows no engine of differentiation."""

from .sweep import Result, Sweep, reverse

__all__ = ["Result", "Sweep", "reverse"]
