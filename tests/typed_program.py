"""A user's program, for type checkers: it is checked as strictly as they can, and run, by test_types.py."""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import checkpoint
import dualad
from checkpoint import CTZ, Disk, Stats, chain, compare, draw, explain, grad, hvp, linearize, plan, sweep, value_and_grad, vjp
from dualad import derivative, gradient, hessian, jacobian, jvp, value_and_derivative, value_and_gradient, value_and_jacobian

Vector = NDArray[np.float64]
Weights = dict[str, Vector]


def anything(x: np.ndarray, scale: float = 1.0) -> np.ndarray:  # without a dtype
    return scale * x**2


@gradient(argnums=1)
def slope(x: float, y: float) -> float:
    return x * y**2


def loss(weights: Weights, x: Vector, scale: float = 1.0) -> np.float64:
    predicted: Vector = np.tanh(x @ weights["w"])
    return np.sum(scale * predicted**2)


def with_aux(x: Vector) -> tuple[np.float64, dict[str, int]]:
    return np.sum(x * x), {"size": x.size}


def residual(u: Vector) -> Vector:
    r: Vector = np.zeros_like(u)
    r[1:-1] = u[2:] - 2.0 * u[1:-1] + u[:-2]
    return r


def energy(u: Vector) -> np.float64:
    return np.sum(u**3)


def curve(t: float) -> Vector:
    return np.stack([np.cos(t), np.sin(t)])


def cube(x: float) -> float:
    return x**3


def forward(x: Vector) -> None:
    assert_type(derivative(cube)(2.0), float)
    assert_type(derivative(curve, order=2)(2.0), Vector)
    assert_type(value_and_derivative(cube)(2.0), tuple[float, float])
    assert_type(jvp(residual, (x,), (x,)), tuple[Vector, Vector])
    value, tangent, aux = jvp(with_aux, (x,), (x,), has_aux=True)
    assert_type(value, np.float64)
    assert_type(tangent, np.float64)
    assert_type(aux, dict[str, int])
    assert_type(gradient(energy)(x), Vector)
    assert_type(gradient(loss)({"w": x}, x, scale=2.0), Weights)
    assert_type(value_and_gradient(energy)(x), tuple[np.float64, Vector])
    assert_type(gradient(with_aux, has_aux=True)(x), tuple[Vector, dict[str, int]])
    assert_type(jacobian(residual)(x), Vector)
    assert_type(jacobian(energy)(x), Vector)
    assert_type(jacobian(curve)(0.5), Vector)
    assert_type(jacobian(anything)(x, scale=2.0), NDArray[Any])
    assert_type(value_and_jacobian(anything)(x), tuple[NDArray[Any], NDArray[Any]])
    assert_type(jacobian(anything, argnums=1)(x, 2.0), Any)
    assert_type(jacobian(lambda u: {"a": u})(x), Any)
    print(slope(1.0, 2.0), jacobian(anything).linear_operator(x).shape)
    assert_type(value_and_jacobian(residual)(x), tuple[Vector, Vector])
    assert_type(value_and_jacobian(residual, cache=True).value(x), Vector)
    assert_type(hessian(energy)(x), Vector)
    assert_type(hessian(with_aux, has_aux=True)(x), tuple[Vector, dict[str, int]])
    for j, column in dualad.jacobian_columns(residual, x):
        assert_type(j, int)
        print(j, column)
    print(jacobian(lambda u: u**2)(x), gradient(lambda u: np.sum(u**2))(x), derivative(lambda t: t * t)(1.0))


def reverse(x: Vector) -> None:
    for i, row in checkpoint.jacobian_rows(residual, x, memory="8 MB"):
        assert_type(i, int)
        print(i, row)
    assert_type(grad(energy)(x), Vector)
    assert_type(grad(loss)({"w": x}, x), Weights)
    assert_type(grad(loss, argnums=(0, 1))({"w": x}, x), tuple[Any, ...])
    assert_type(grad(with_aux, has_aux=True)(x), tuple[Vector, dict[str, int]])
    assert_type(value_and_grad(energy)(x), tuple[np.float64, Vector])
    assert_type(value_and_grad(with_aux, has_aux=True)(x), tuple[tuple[np.float64, dict[str, int]], Vector])
    assert_type(checkpoint.jacobian(residual)(x), Vector)
    assert_type(checkpoint.jacobian(anything)(x), NDArray[Any])
    value, pullback = vjp(residual, x)
    assert_type(value, Vector)
    assert_type(pullback(x), tuple[Any, ...])
    assert_type(linearize(residual, x)[1](x), Vector)
    assert_type(linearize(with_aux, x, has_aux=True)[2], dict[str, int])
    assert_type(hvp(energy, x, x), Vector)
    assert_type(hvp(with_aux, x, x, has_aux=True), tuple[Vector, dict[str, int]])
    assert_type(checkpoint.checkpoint(energy)(x), np.float64)
    print(grad(lambda w, x: np.sum(x @ w["w"]))({"w": x}, x), hvp(lambda x: np.sum(x**3), x, x))


def chains(x: Vector) -> None:
    def step(k: int, state: tuple[Vector, float], rate: float) -> tuple[Vector, float]:
        u, t = state
        return u - rate * u, t + rate

    def driven(k: int, u: Vector, row: Vector) -> tuple[Vector, np.float64]:
        return 0.5 * u + row, np.sum(u)

    def final(x: Vector, rate: float) -> np.float64:
        u, t = chain(step, (x, 0.0), rate, steps=10, schedule=CTZ(), stats=stats)
        assert_type(u, Vector)
        assert_type(t, float)
        return np.sum(u + t)

    stats = Stats()
    assert_type(grad(final)(x, 0.1), Vector)
    assert_type(grad(final, 1)(x, 0.1), Any)
    assert_type(stats.advances, int)
    assert_type(chain(driven, x, inputs=np.ones((3, x.size)), outputs=True), tuple[Vector, Any])
    result = sweep.reverse(lambda k, u: u * u, lambda k, u, g: 2 * u * g, 1.5, 1.0, steps=3)
    assert_type(result.stats, Stats)


def tools(x: Vector) -> None:
    @dualad.primitive
    def softplus(x: Vector) -> Vector:
        return np.logaddexp(x, 0.0)

    dualad.rules.elementwise(softplus, lambda ans, x: 1.0 / (1.0 + np.exp(-x)))
    assert_type(softplus(x), Vector)

    @dualad.jit
    def compiled(x: Vector, power: float = 2.0) -> np.float64:
        return np.sum(x**power)

    assert_type(compiled(x, power=3.0), np.float64)
    assert_type(grad(compiled)(x), Vector)
    root = dualad.implicit(lambda x, a: x * x - a, np.sqrt)
    print(root(2.0))
    assert_type(dualad.primal(x), Vector)
    assert_type(dualad.stop_gradient({"w": x}), Weights)
    assert_type(dualad.explain_nan(energy, x), str | None)
    assert_type(explain(energy, x).to_markdown(), str)
    assert_type(str(compare(steps=10, state_bytes=8)), str)
    picture: str = draw(CTZ(), 10)
    print(picture)
    schedule, _, reason, _ = plan(1000, "8 MB", "2 GB")
    assert_type(reason, str)
    print(schedule, Disk())
    solver: Callable[[Vector], Vector] = jacobian(residual)
    print(solver(x))


if __name__ == "__main__":
    for part in (forward, reverse, chains, tools):
        part(np.array([0.5, 1.0, 2.0]))
