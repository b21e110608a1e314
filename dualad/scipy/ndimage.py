"""``scipy.ndimage`` with derivatives."""

from ..rules.scipy import ndimage as _rows
from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("ndimage", _rows)
