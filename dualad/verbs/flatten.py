"""flatten: a pytree as one vector; and classes that pytrees may hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optree

from ..core.dispatch import array, dtype_of
from ..graph.program import role_of
from ..support.callers import trimmed

GLOBAL = vars(optree.registry)["__GLOBAL_NAMESPACE"]  # of classes that all functions of optree know


@trimmed
def flatten(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the numbers of a pytree as one vector, and the function that turns a vector back into such a pytree.

    Code that needs vectors (`scipy.optimize`, a Hessian as one matrix) then works with parameters in tuples, dicts and dataclasses.

    Parameters
    ----------
    x : pytree of numbers and arrays, plain or traced, such as a gradient, too. Leaves that are no floating-point or complex numbers
        are not in the vector: `unflatten` returns them as they are here.

    Returns
    -------
    vector : array of shape (n,) of all floating-point and complex elements, in the order of the leaves, each in C order. Its dtype is
        the one that NumPy promotes theirs to, float64 where there are none.
    unflatten : ``unflatten(vector)`` is a pytree of the structure of x, whose leaves have the shapes and dtypes of those of x (of a complex
        vector, real leaves are the real parts). It takes traced vectors, and derivatives pass through it.

    Raises
    ------
    TypeError
        Of a masked array.
    ValueError
        By `unflatten`, where the vector has another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import flatten
    >>> vector, unflatten = flatten({"rate": 0.5, "weights": np.ones((2, 2))})
    >>> vector
    array([0.5, 1. , 1. , 1. , 1. ])
    >>> unflatten(2.0 * vector)["weights"]
    array([[2., 2.],
           [2., 2.]])
    """
    leaves, structure = optree.tree_flatten(x)
    for leaf in leaves:
        if isinstance(leaf, np.ma.MaskedArray):
            raise TypeError("flatten: a masked array, whose mask a vector does not have: pass plain numbers (a.filled(value))")
    dtypes = {i: dtype for i, leaf in enumerate(leaves) if (dtype := dtype_of(leaf)).kind in "fc"}
    shapes = {i: np.shape(leaves[i]) for i in dtypes}
    roles = {i: role_of(leaves[i]) for i in dtypes}
    kept = [None if i in dtypes else leaf for i, leaf in enumerate(leaves)]
    ends = dict(zip(dtypes, np.cumsum([0, *map(np.prod, shapes.values())])[1:].astype(int).tolist(), strict=True))
    size = max([0, *ends.values()])
    dtype = np.result_type(*dtypes.values()) if dtypes else np.dtype(float)
    vector = np.concatenate([np.ravel(array(leaves[i])).astype(dtype) for i in dtypes]) if dtypes else np.zeros(0)

    def unflatten(vector: Any) -> Any:
        vector = array(vector)
        if np.shape(vector) != (size,):
            raise ValueError(f"unflatten: the vector has shape {np.shape(vector)}: give ({size},), one element for each of the pytree")
        made, first = kept.copy(), 0
        for i, end in ends.items():
            part = vector[first:end]
            part = np.real(part) if dtypes[i].kind == "f" and dtype_of(part).kind == "c" else part
            part = part.astype(dtypes[i])
            made[i] = np.reshape(part, shapes[i]) if roles[i] == "array" else part[0] if roles[i] == "scalar" else part[0].item()
            first = end
        return optree.tree_unflatten(structure, made)

    return vector, unflatten


def register_dataclass(cls: type | None = None, /, *, static: Iterable[str] = ()) -> Any:
    """Let instances of a dataclass stand in pytrees: as arguments, results and states of all verbs.

    Parameters
    ----------
    cls : dataclass. Without it `register_dataclass` returns a decorator.
    static : names of fields that are no parameters (options, texts, sizes): they are kept as they are, and must be hashable.
        The other fields hold pytrees.

    Returns
    -------
    the class.

    Raises
    ------
    TypeError
        Where `cls` is no dataclass.
    ValueError
        Where `static` names no field of it, or the class is registered already.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import dualad
    >>> @dualad.register_dataclass(static=["name"])
    ... @dataclass
    ... class Spring:
    ...     stiffness: float
    ...     length: float
    ...     name: str = "spring"
    >>> gradient = dualad.gradient(lambda spring: spring.stiffness * spring.length**2)(Spring(2.0, 3.0))
    >>> float(gradient.stiffness), float(gradient.length), gradient.name
    (9.0, 12.0, 'spring')
    """
    if cls is None:
        return lambda cls: register_dataclass(cls, static=static)
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"register_dataclass: {cls!r} is no dataclass: decorate the class with dataclasses.dataclass first")
    names = [field.name for field in dataclasses.fields(cls)]
    fixed = [static] if isinstance(static, str) else list(static)
    if unknown := [name for name in fixed if name not in names]:
        given, there = ", ".join(map(repr, unknown)), ", ".join(names)
        raise ValueError(f"register_dataclass: static names {given}; the fields of {cls.__name__} are {there}")
    moving = tuple(name for name in names if name not in fixed)

    def parts(instance: Any) -> tuple[list[Any], tuple[Any, ...], tuple[str, ...]]:
        return [getattr(instance, name) for name in moving], tuple(getattr(instance, name) for name in fixed), moving

    def made(values: tuple[Any, ...], children: Iterable[Any]) -> Any:
        instance = object.__new__(cls)  # not by __init__: what it checks and converts has been so before
        for name, value in (*zip(fixed, values, strict=True), *zip(moving, children, strict=True)):
            object.__setattr__(instance, name, value)
        return instance

    try:
        register: Any = optree.register_pytree_node  # which asks for collections
        register(cls, parts, made, path_entry_type=optree.GetAttrEntry, namespace=GLOBAL)
    except ValueError:
        raise ValueError(f"register_dataclass: {cls.__name__} is registered already") from None
    return cls
