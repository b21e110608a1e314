"""``scipy.optimize`` with derivatives: of solutions, by the equations that they solve."""

from . import searches as _rows
from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("optimize", _rows)
