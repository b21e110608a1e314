"""`jit`: what a function reads, the kinds of its arguments, guards, and the function that is compiled."""

from .jit import jit

__all__ = ["jit"]
