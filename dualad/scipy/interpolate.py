"""``scipy.interpolate`` with derivatives."""

from ..rules.scipy import interpolate as _rows
from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("interpolate", _rows)
