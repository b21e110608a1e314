"""``scipy.optimize`` with derivatives: of solutions, by the equations that they solve."""

from .namespaces import namespace as _namespace

__getattr__, __dir__, __all__ = _namespace(__name__, "dualad.scipy.searches")
