"""``scipy.integrate`` with derivatives."""

from . import equations as _rows
from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("integrate", _rows)
