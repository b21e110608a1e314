"""``scipy.sparse`` with derivatives."""

from ..namespaces import namespace as _namespace
from . import linalg as linalg

__getattr__, __dir__, __all__ = _namespace(__name__)
