"""``scipy.special`` with derivatives."""

from ..rules.scipy import special as _rows
from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("special", _rows)
