"""``scipy.spatial.transform`` with derivatives."""

from ...rules.scipy.spatial import transform as _rows
from ..namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("spatial.transform", _rows)
