"""Ways to change the functions, classes and modules that a function uses; see `outside_changes`."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
from outside_changes import module

CASES = {}


def case(made):
    CASES[made.__name__] = made
    return made


@case
def closure():
    a = 2.0

    def change():
        nonlocal a
        a = 5.0

    return lambda x: x * a, change


@case
def closure_that_is_a_function():
    def helper(x):
        return 2.0 * x

    def change():
        nonlocal helper
        helper = lambda x: 5.0 * x

    return lambda x: helper(x), change


def of_module(text, change):
    """Return f of a module with this text, and the change, which is executed in it."""

    def made():
        m = module(np=np)
        exec(text, vars(m))
        return m.f, lambda: exec(change, vars(m))

    return made


MAKES = "class M:\n    def __init__(self, x): self.x = x * a\n    def of(self, x): return type(self)(x)\na = 2.0\nmodel = M(1.0)\n"
RULE = "class Model:\n    def __init__(self): self.a = 2.0\n    def rhs(self, x): return x * self.a\nmodel = Model()\n"
CASES |= {
    "global number": of_module("a = 2.0\ndef f(x): return x * a", "a = 5.0"),
    "global array": of_module("a = np.full(3, 2.0)\ndef f(x): return x * a", "a[:] = 5.0"),
    "global array, another": of_module("a = np.full(3, 2.0)\ndef f(x): return x * a", "a = np.full(3, 5.0)"),
    "global, by globals()": of_module("a_b = 2.0\ndef f(x): return x * globals()['_'.join('ab')]", "a_b = 5.0"),
    "global that hides a builtin": of_module("def f(x): return x * max(2.0, 1.0)", "max = lambda *a: 5.0"),
    "global helper": of_module("def g(x): return x * 2.0\ndef f(x): return g(x)", "def g(x): return x * 5.0"),
    "__code__": of_module("def g(x): return x * 2.0\ndef f(x): return g(x)", "g.__code__ = (lambda x: x * 5.0).__code__"),
    "__code__ of f": of_module("def f(x): return x * np.float64(2.0)", "f.__code__ = (lambda x: x * np.float64(5.0)).__code__"),
    "__code__ of f that reads nothing": of_module("def f(x): return x * 2.0", "f.__code__ = (lambda x: x * 5.0).__code__"),
    "__code__ of a method": of_module(RULE + "def f(x): return model.rhs(x)", "Model.rhs.__code__ = (lambda self, x: x * 5.0).__code__"),
    "__defaults__": of_module("def g(x, a=2.0): return x * a\ndef f(x): return g(x)", "g.__defaults__ = (5.0,)"),
    "__kwdefaults__": of_module("def g(x, *, a=2.0): return x * a\ndef f(x): return g(x)", "g.__kwdefaults__ = {'a': 5.0}"),
    "__kwdefaults__, in place": of_module("def g(x, *, a=2.0): return x * a\ndef f(x): return g(x)", "g.__kwdefaults__['a'] = 5.0"),
    "default value, in place": of_module("def g(x, a=[2.0]): return x * a[0]\ndef f(x): return g(x)", "g.__defaults__[0][0] = 5.0"),
    "attribute of a function": of_module("def g(x): return x * g.a\ng.a = 2.0\ndef f(x): return g(x)", "g.a = 5.0"),
    "method": of_module(RULE + "def f(x): return model.rhs(x)", "Model.rhs = lambda self, x: x * 5.0"),
    "method's attribute, by a helper": of_module(RULE + "def g(m, x): return m.rhs(x)\ndef f(x): return g(model, x)", "model.a = 5.0"),
    "method of the instance": of_module(RULE + "def f(x): return model.rhs(x)", "model.rhs = lambda x: x * 5.0"),
    "method of a base class": of_module(
        RULE + "class Sub(Model): pass\nsub = Sub()\ndef f(x): return sub.rhs(x)", "Model.rhs = lambda self, x: x * 5.0"
    ),
    "bases of a class": of_module(
        RULE + "class Base: a = 2.0\nclass Other: a = 5.0\nclass Sub(Base): pass\ndef f(x): return x * Sub.a", "Sub.__bases__ = (Other,)"
    ),
    "property of a class": of_module(
        "class M:\n    @property\n    def a(self): return 2.0\nm = M()\ndef f(x): return x * m.a", "M.a = property(lambda self: 5.0)"
    ),
    "special method": of_module(
        "class M:\n    def __call__(self, x): return x * 2.0\nm = M()\ndef f(x): return m(x)", "M.__call__ = lambda self, x: x * 5.0"
    ),
    "static method": of_module(
        "class M:\n    @staticmethod\n    def g(x): return x * 2.0\ndef f(x): return M.g(x)", "M.g = staticmethod(lambda x: x * 5.0)"
    ),
    "class method": of_module(
        "class M:\n    a = 2.0\n    @classmethod\n    def g(cls, x): return x * cls.a\ndef f(x): return M.g(x)", "M.a = 5.0"
    ),
    "attribute of a class": of_module("class M: a = 2.0\ndef f(x): return x * M.a", "M.a = 5.0"),
    "attribute of a metaclass": of_module("class T(type): a = 2.0\nclass M(metaclass=T): pass\ndef f(x): return x * M.a", "T.a = 5.0"),
    "special attribute of a class": of_module("class M: __a__ = 2.0\ndef f(x): return x * M.__a__", "M.__a__ = 5.0"),
    "special attribute of an instance's class": of_module("class M: __a__ = 2.0\nm = M()\ndef f(x): return x * m.__a__", "M.__a__ = 5.0"),
    "what makes another instance": of_module(MAKES + "def f(x): return model.of(x).x", "a = 5.0"),
    "method that makes another instance": of_module(
        MAKES + "def f(x): return model.of(x).x", "def made(self, x): self.x = x * 5.0\nM.__init__ = made"
    ),
    "method that makes another data class": of_module(
        "from dataclasses import dataclass, replace\n@dataclass\nclass M:\n    x: object\n"
        "    def __post_init__(self): self.x = self.x * a\n"
        "a = 2.0\nmodel = M(1.0)\ndef f(x): return replace(model, x=x).x",
        "a = 5.0",
    ),
    **{
        f"subclass of {wrapper}": of_module(
            f"class kind({wrapper}): pass\n"
            f"class M:\n    @kind\n    def get(*given): return a\na = 2.0\nm = M()\ndef f(x): return x * {read}",
            "a = 5.0",
        )
        for wrapper, read in {"property": "m.get", "classmethod": "m.get()", "staticmethod": "m.get()"}.items()
    },
    "attributes that a class computes": of_module(
        "class M:\n    def __getattribute__(self, name): return a\na = 2.0\nm = M()\ndef f(x): return x * m.b", "a = 5.0"
    ),
    "member of an Enum": of_module("from enum import Enum\nclass M(Enum): A = 2.0\ndef f(x): return x * M.A.value", "M.A._value_ = 5.0"),
    "descriptor": of_module(
        "class D:\n    v = 2.0\n    def __get__(self, i, c): return self.v\nclass M: a = D()\nm = M()\ndef f(x): return x * m.a",
        "vars(M)['a'].v = 5.0",
    ),
    "partial method": of_module(
        "from functools import partialmethod\nclass M:\n    def g(self, a, x): return x * a[0]\n    h = partialmethod(g, [2.0])\n"
        "m = M()\ndef f(x): return m.h(x)",
        "vars(M)['h'].args[0][0] = 5.0",
    ),
    "wrapped function": of_module(
        "from functools import wraps\ndef w(g):\n    @wraps(g)\n    def h(x): return g(x)\n    return h\na = 2.0\n"
        "@w\ndef g(x): return x * a\ndef f(x): return g(x)",
        "a = 5.0",
    ),
    "single dispatch": of_module(
        "from functools import singledispatch\na = 2.0\n@singledispatch\ndef g(n, x): return x * 1.0\n"
        "@g.register\ndef _(n: int, x): return x * a\n"
        "def f(x): return g(1, x)",
        "a = 5.0",
    ),
    "cached function": of_module(
        "from functools import lru_cache\na = 2.0\n@lru_cache\ndef g(n): return a\ndef f(x): return x * g(1)", "a = 5.0; g.cache_clear()"
    ),
    "generator": of_module("a = [2.0]\ndef g():\n    yield from a\ndef f(x): return x * next(g())", "a[0] = 5.0"),
    "code that is evaluated": of_module("text = '2.0'\ndef f(x): return x * eval(text)", "text = '5.0'"),
    "variable of code that is evaluated": of_module("ab = 2.0\ndef f(x): return x * eval('+'.join(['ab', '0']))", "ab = 5.0"),
}


def importing(statement, read, kind=None):
    """Return a case whose function imports a module of its own, or what else stands for it."""

    def made():
        m = module(a=2.0)
        if kind is not None:
            held, m = m, kind(m.__name__)
            vars(m).update(vars(held))
            sys.modules[m.__name__] = m
        sub = module(a=2.0)
        m.sub, sys.modules[f"{m.__name__}.sub"] = sub, sub
        space = {"__name__": "dualad_outside", "__package__": m.__name__}
        exec(f"def f(x):\n    {statement.format(m.__name__)}\n    return x * {read}", space)

        def change():
            m.a = sub.a = 5.0

        return space["f"], change

    return made


#: so many that bytecode numbers them in two parts
LONG = "if x is None: " + "; ".join(f"n{k}('t{k}')" for k in range(300)) + "\n    "

CASES |= {
    "import inside of long code": importing(LONG + "from .sub import a", "a"),
    "import inside": importing("import {0} as m", "m.a"),
    "import inside, of a class of its own": importing("import {0} as m", "m.a", type("Module", (ModuleType,), {})),
    "import inside, an object": importing("import {0} as m", "m.a", lambda name: SimpleNamespace()),
    "import inside, by name": importing("from {0} import a", "a"),
    "import inside, a part by its path": importing("import {0}.sub as s", "s.a"),
    "import inside, relative": importing("from . import sub", "sub.a"),
    "import inside, relative by name": importing("from .sub import a", "a"),
    "import by a computed name": importing("import importlib", "importlib.import_module(''.join(['{0}'])).a"),
}


def by_computed_name():
    m = module(a=2.0)
    name = m.__name__

    def f(x):
        from importlib import import_module

        return x * import_module("".join(name)).a

    return f, lambda: setattr(m, "a", 5.0)


CASES["import by a computed name"] = by_computed_name


def scipy_cases():
    """Return the cases of SciPy's objects."""
    from scipy.interpolate import CubicSpline, interp1d
    from scipy.sparse import csr_matrix

    def made(make, change, use):
        def case():
            held = make()
            return (lambda x: use(held, x)), lambda: change(held)

        return case

    fill = lambda name: lambda held: getattr(held, name).fill(5.0)
    return {
        "csr_matrix": made(lambda: csr_matrix(np.eye(3) * 2.0), fill("data"), lambda held, x: held.toarray() @ x),
        "csr_matrix, its data": made(lambda: csr_matrix(np.eye(3) * 2.0), fill("data"), lambda held, x: x * held.data),
        "CubicSpline": made(lambda: CubicSpline([0.0, 1.0, 2.0], [2.0, 3.0, 5.0]), fill("c"), lambda held, x: x * float(held(0.5))),
        "interp1d": made(lambda: interp1d([0.0, 1.0], [2.0, 3.0]), fill("y"), lambda held, x: x * float(held(0.5))),
    }
