"""``scipy.spatial`` with derivatives: its modules."""

from ..namespaces import modules as _modules

__all__ = ["distance", "transform"]

__getattr__, __dir__ = _modules(__name__, __all__)
