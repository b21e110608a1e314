"""checkpoint: reverse mode for programs that are long chains of steps, in O(log N) memory."""

from .gradient import grad, hvp, jacobian, linearize, value_and_grad, vjp

__all__ = ["grad", "hvp", "jacobian", "linearize", "value_and_grad", "vjp"]
