"""``scipy.signal`` with derivatives."""

from ..rules.scipy import signal as _rows
from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("signal", _rows)
