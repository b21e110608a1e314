"""Types of what the verbs take and give, for type checkers; nothing here is used when a program runs.

A verb keeps the signature of the function that it is given: the gradient of ``f(x: X, ...)`` is a function ``(x: X, ...) -> X``. Where
`argnums` or an argument hides it (a pytree, a lambda), results are Any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Never, ParamSpec, TypeAlias, TypedDict, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rest = ParamSpec("Rest")  # further arguments of f, which are passed through
X = TypeVar("X", bound=Any)  # the argument that is differentiated: an array, a number or a pytree
Result = TypeVar("Result", bound=Any)
Aux = TypeVar("Aux", bound=Any)
Element = TypeVar("Element", bound=np.generic)  # of an array: its dtype

Fn: TypeAlias = Callable[Concatenate[X, Rest], Result]
Array: TypeAlias = "NDArray[Any]"
Number: TypeAlias = float | np.floating[Any]
Argnums: TypeAlias = int | tuple[int, ...]
Chunk: TypeAlias = int | None
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]  # of a verb that is given options only
Verb = TypeVar("Verb", bound=Callable[..., Any])


def typed_as(verb: Verb) -> Callable[[Callable[..., Any]], Verb]:
    """Return a decorator for a verb with the arguments and types of another one."""
    return lambda other: other  # type: ignore[return-value]


class GradientOptions(TypedDict, total=False):
    """Keywords of `gradient`."""

    nan_safe: bool
    has_aux: bool


class HessianFlags(TypedDict, total=False):
    """Keywords of `hessian` on which no type depends."""

    verify: bool
    nan_safe: bool


class Flags(HessianFlags, total=False):
    """Those of `jacobian`."""

    holomorphic: bool


class ForwardFlags(Flags, total=False):
    """Those of `dualad.jacobian`."""

    executor: Any


class HessianOptions(HessianFlags, total=False):
    """All of them, where the result may be anything."""

    sparsity: Any
    has_aux: bool


class JacobianOptions(Flags, HessianOptions, total=False):
    """All of them, of `jacobian`."""


class ForwardOptions(ForwardFlags, HessianOptions, total=False):
    """All of them, of `dualad.jacobian`."""


class StreamOptions(TypedDict, total=False):
    """Those of `jacobian_rows` and `jacobian_columns`."""

    memory: float | str | None
    progress: bool
    executor: Any
    holomorphic: bool
    nan_safe: bool


class JitOptions(TypedDict, total=False):
    """Those of `jit`."""

    static_argnums: int | Iterable[int]
    static_argnames: str | Iterable[str]
    backend: str | None
    cache_size: int
    threads: int | None
    verify: bool | None
    paths: int


X_contra = TypeVar("X_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)


class Jacobian(Generic[X_contra, Rest, Result_co]):
    """What `jacobian` returns, for a function ``(x: X, ...) -> Result``: of arrays and numbers an array, of all others Any.

    Chosen by `self`, the type is known where f says ``np.ndarray`` without a dtype. Only Any is below Never, and above object.
    """

    @overload
    def __call__(self: Jacobian[object, Rest, Any], x: Any, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Any: ...
    @overload
    def __call__(self: Jacobian[Any, Rest, Never], x: Any, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Any: ...
    @overload
    def __call__(
        self: Jacobian[Array, Rest, NDArray[Element]], x: Array, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> NDArray[Element]: ...
    @overload
    def __call__(
        self: Jacobian[NDArray[Element], Rest, Number], x: NDArray[Element], /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> NDArray[Element]: ...
    @overload
    def __call__(
        self: Jacobian[float, Rest, NDArray[Element]], x: float, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> NDArray[Element]: ...
    @overload
    def __call__(self: Jacobian[X, Rest, Any], x: X, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Any: ...
    def __call__(self, x: Any, /, *args: Any, **kwargs: Any) -> Any: ...

    def linear_operator(self, *args: Any, **kwargs: Any) -> Any: ...


class ValueAndJacobian(Generic[X_contra, Rest, Result_co]):
    """What `value_and_jacobian` returns: see `Jacobian`."""

    @overload
    def __call__(self: ValueAndJacobian[object, Rest, Any], x: Any, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Any: ...
    @overload
    def __call__(self: ValueAndJacobian[Any, Rest, Never], x: Any, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Any: ...
    @overload
    def __call__(
        self: ValueAndJacobian[Array, Rest, NDArray[Element]], x: Array, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> tuple[NDArray[Element], NDArray[Element]]: ...
    @overload
    def __call__(
        self: ValueAndJacobian[NDArray[Element], Rest, Number], x: NDArray[Element], /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> tuple[Number, NDArray[Element]]: ...
    @overload
    def __call__(
        self: ValueAndJacobian[float, Rest, NDArray[Element]], x: float, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> tuple[NDArray[Element], NDArray[Element]]: ...
    @overload
    def __call__(self: ValueAndJacobian[X, Rest, Result], x: X, /, *args: Rest.args, **kwargs: Rest.kwargs) -> tuple[Result, Any]: ...
    def __call__(self, x: Any, /, *args: Any, **kwargs: Any) -> Any: ...
