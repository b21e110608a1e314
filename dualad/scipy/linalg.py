"""``scipy.linalg`` with derivatives."""

from ..rules.scipy import linalg as _rows
from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("linalg", _rows)
