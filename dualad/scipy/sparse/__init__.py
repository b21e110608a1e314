"""``scipy.sparse`` with derivatives."""

from ...rules.scipy import sparse as _rows
from ..namespaces import namespace as _namespace
from . import linalg as linalg

__getattr__, __dir__, __all__ = _namespace("sparse", _rows)
