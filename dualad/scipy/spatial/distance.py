"""``scipy.spatial.distance`` with derivatives."""

from ...rules.scipy.spatial import distance as _rows
from ..namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("spatial.distance", _rows)
