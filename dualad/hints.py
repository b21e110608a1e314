"""Types of what the verbs take and give, for type checkers; nothing here is used when a program runs.

A verb keeps the signature of the function that it is given: the gradient of ``f(x: X, ...)`` is a function ``(x: X, ...) -> X``. Where
`argnums` or an argument hides it (a pytree, a lambda), results are Any.
"""

from __future__ import annotations

from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Argnums", "Array", "Aux", "Chunk", "Element", "Number", "Rest", "Result", "X"]

Rest = ParamSpec("Rest")  # further arguments of f, which are passed through
X = TypeVar("X", bound=Any)  # the argument that is differentiated: an array, a number or a pytree
Result = TypeVar("Result", bound=Any)
Aux = TypeVar("Aux", bound=Any)
Element = TypeVar("Element", bound=np.generic)  # of an array: its dtype

Array: TypeAlias = NDArray[Any]
Number: TypeAlias = float | np.floating[Any]
Argnums: TypeAlias = int | tuple[int, ...]
Chunk: TypeAlias = int | None
