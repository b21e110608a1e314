"""``scipy.stats`` with derivatives."""

from ..rules.scipy import stats as _rows
from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace("stats", _rows)
