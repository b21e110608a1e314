"""`jit`: the kinds of arguments, values read from outside, guards, compiled functions."""

from .jit import jit

__all__ = ["jit"]
