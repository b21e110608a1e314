"""``scipy.sparse.linalg`` with derivatives."""

from ...rules.scipy import sparse_linalg as _rows
from ..namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("sparse.linalg", _rows)
