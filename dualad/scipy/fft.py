"""``scipy.fft`` with derivatives."""

from ..rules.scipy import fft as _rows
from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("fft", _rows)
