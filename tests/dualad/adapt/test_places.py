"""Where names were kept before: adapt finds them, and leaves nothing behind, whatever happens meanwhile."""

import _imp
import asyncio
import builtins
import functools
import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest
from central import differences

import checkpoint as ck
import dualad
from dualad.adapt import places
from dualad.adapt.adapt import ACTIVE

SOURCE = """
import enum
import functools
import math
import dataclasses
from numpy import *
from typing import Callable

def traced_by(decorator_of):
    return decorator_of

@outer_decorator
def decorated(x, convert=float64): return convert(x[0]) ** 2 + math.sin(x[1])

@functools.lru_cache
def constant(n): return math.sqrt(n)

TABLE = {"sin": math.sin, "array": asarray, "nothing": None}
def by_table(x): return TABLE["sin"](x[0]) * sum(TABLE["array"](x, float))

@dataclasses.dataclass
class Model:
    scale: float = 2.0
    link: Callable = math.exp
    house: Callable = dataclasses.field(default=asarray, kw_only=True)
    def value(self, x): return sum(self.scale * self.house([self.link(part) for part in x]))
    @functools.cached_property
    def bound(self, convert=math.cosh): return convert
    @functools.singledispatchmethod
    def named(self, x): return self.link(x)

def by_dataclass(x): return Model().value(x) + Model().bound(x[0])

class Way(enum.Enum):
    UP = 1
    DOWN = staticmethod(math.sin)

by_lambda = lambda x, *, root=math.sqrt: root(x[2]) + math.exp(x[0])
by_partial = functools.partial(lambda x, house: house([x[0], x[2]]).sum() ** 2, house=array)
def squares(x):
    for part in x:
        yield math.pow(part, 2.0)
def by_imports(x):
    import math
    import numpy.linalg as la
    from math import exp as power
    from numpy import asarray
    return la.norm([x[0], power(x[1])]) + math.sin(x[2]) * sum(asarray(x, float))
def by_a_global_import(x):
    global imported
    import math as imported
    return imported.cosh(x[0]) * x[1]
async def awaited(x):
    first = math.sin(x[0])
    await pause()
    return first * math.exp(x[1])
"""
NAMES = ["by_a_global_import", "by_dataclass", "by_imports", "by_lambda", "by_partial", "by_table", "decorated"]
X = np.array([0.3, -0.7, 1.1])


def outer_decorator(fn):
    @functools.wraps(fn)
    def inner(*args):
        return fn(*args)

    return inner


@pytest.fixture
def code(monkeypatch):
    module = ModuleType("others_places")
    monkeypatch.setitem(sys.modules, "others_places", module)
    vars(module)["outer_decorator"] = outer_decorator
    exec(compile(SOURCE, "others_places.py", "exec"), vars(module))
    before, imports = state(module), builtins.__import__
    yield module
    assert state(module) == before and not ACTIVE.changed and builtins.__import__ is imports
    assert getattr(module, "imported", math) is math


def state(module):
    names = {name: value for name, value in vars(module).items() if name not in ("imported", "pause")}
    return names, dict(module.TABLE), dict(vars(module.Model)), module.decorated.__wrapped__.__defaults__, module.by_lambda.__kwdefaults__


@pytest.mark.parametrize("name", NAMES)
def test_names_are_found_where_they_were_kept(code, name):
    f = getattr(code, name)
    value, slopes = f(X), differences(f, X)
    for adapted in (dualad.adapt(code)(f), dualad.adapt(f)):
        result, gradient = ck.value_and_grad(adapted)(X)
        assert result == value
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6)


def test_cached_functions_are_targets(code):
    assert dualad.adapt(code.constant)(9) == 3.0
    with dualad.adapt(code.constant, code.by_lambda):
        assert dualad.derivative(lambda x: x * code.constant(4))(3.0) == 2.0
        assert dualad.derivative(code.math.sin)(0.0) == 1.0
    code.constant.cache_clear()


def test_generators_are_adapted_while_they_run(code):
    squares = dualad.adapt(code.squares)
    assert ck.grad(lambda x: sum(squares(x)))(X) == pytest.approx(2 * X)
    begun = squares(X)
    next(begun)
    begun.close()  # and when they are given up


@pytest.mark.parametrize("fails", [False, True])
def test_coroutines_are_adapted_while_they_run(code, fails):
    """Two derivative calls of one module, of which one ends, by an exception too, while the other waits."""
    slopes = [np.cos(X[0]) * np.exp(X[1]), np.sin(X[0]) * np.exp(X[1]), 0.0]
    f = dualad.adapt(code.awaited)

    async def differentiate(turns, error=None):
        async def pause():
            for _ in range(turns):
                await asyncio.sleep(0)
            if error is not None:
                raise error

        code.pause = pause
        return await f(dualad.Dual(X, X))

    async def both():
        other = differentiate(1, ZeroDivisionError() if fails else None)
        return await asyncio.gather(differentiate(5), other, return_exceptions=True)

    results = asyncio.run(both())
    for result in results[: 1 if fails else 2]:
        if not isinstance(result, ZeroDivisionError):
            np.testing.assert_allclose(result.tangent, slopes @ X)
    assert not ACTIVE.changed


def test_threads_that_fail_leave_nothing(code):
    meet = threading.Barrier(4)

    def work(i):
        meet.wait()
        for k in range(30):
            try:
                with dualad.adapt(code), dualad.adapt(code.Model, code.decorated):
                    assert ck.grad(code.decorated)(X)[2] == 0.0
                    if (i + k) % 3 == 0:
                        raise KeyError
            except KeyError:
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_an_interrupt_while_names_are_bound_leaves_nothing(code, monkeypatch):
    for count in (0, 3, 7):
        made = []

        def make(change, made=made, count=count):
            if len(made) == count:
                raise KeyboardInterrupt
            made.append(change)
            original(change)

        original = places.Change.make
        with monkeypatch.context() as patch:
            patch.setattr(places.Change, "make", make)
            with pytest.raises(KeyboardInterrupt), dualad.adapt(code):
                pass
        assert len(made) == count


def test_it_is_adapted_again_inside_of_itself(code):
    outer = dualad.adapt(code)

    @outer
    def inner(x):
        with outer, dualad.adapt(code.by_lambda, code):
            return code.decorated(x)

    assert ck.grad(inner)(X)[2] == 0.0
    with pytest.raises(TypeError, match="would lose its derivative"):
        ck.grad(code.by_table)(X)


def test_what_was_not_begun_does_not_end(code):
    ended = dualad.adapt(code)
    with ended:
        pass
    with dualad.adapt(code.Model, code.decorated), pytest.raises(RuntimeError, match="without a matching __enter__"):
        dualad.adapt(code, functools).__exit__()
    with pytest.raises(RuntimeError, match="without a matching __enter__"):
        ended.__exit__()


def test_frozen_modules_have_python_code():
    import zipimport

    assert _imp.is_frozen("zipimport")
    with dualad.adapt(zipimport):
        pass


@pytest.mark.parametrize("name", ["math", "_thread", "_imp"])
def test_modules_of_c_are_refused(name):
    with pytest.raises(TypeError, match=r"is not adapted|is compiled"):
        dualad.adapt(pytest.importorskip(name))


def test_results_are_numpys_own(code):
    exec("def pair(x): return zeros(2), ones(3)", vars(code))
    kinds = []
    ck.grad(lambda x: kinds.extend(map(type, dualad.adapt(code.pair)(x))) or x)(1.0)
    assert kinds == [np.ndarray, np.ndarray]
    del code.pair
