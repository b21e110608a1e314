"""HIPS autograd's own tests, unedited: its names are answered by this library, once in reverse and once in forward mode.

    pip install pytest xarray
    pip download --no-deps --no-binary :all: autograd && tar xzf autograd-*.tar.gz
    python -m benchmarks.autograd_suite autograd-*/tests [--modes forward] [--tests test_fft.py ...]

`autograd.numpy` is NumPy and `autograd.scipy` is SciPy, both as `dualad.adapt` gives them to other people's code. `check_grads` compares
the derivatives that a test asks for, up to its order, with central differences. What has no equal here is left out: its tests fail.
"""

from __future__ import annotations

import argparse
import collections
import functools
import inspect
import itertools
import sys
import types
from pathlib import Path

import numpy as np
import optree

import checkpoint
import dualad

from .harness import counts_table, rows_of

# --- vectors of any structure -----------------------------------------------------------------------------------------------------


class Space:
    """The pytrees of one structure as a vector space over the reals: autograd's `vspace`."""

    def __init__(self, value):
        leaves, self.structure = optree.tree_flatten(value)
        self.leaves = [(np.shape(leaf), np.iscomplexobj(leaf)) for leaf in leaves]
        self.sizes = [int(np.prod(shape)) * (1 + is_complex) for shape, is_complex in self.leaves]
        self.size = sum(self.sizes)

    def __eq__(self, other):
        return (self.structure, self.leaves) == (other.structure, other.leaves)

    __hash__ = None

    def coordinates(self, x):
        leaves = zip(self.structure.flatten_up_to(x), self.leaves, strict=True)
        pairs = lambda leaf: np.stack([np.real(leaf), np.imag(leaf)], axis=-1)
        return np.concatenate([np.zeros(0), *(np.ravel(pairs(leaf) if is_complex else leaf) for leaf, (_, is_complex) in leaves)])

    def vector(self, coordinates):
        parts = np.split(coordinates, np.cumsum(self.sizes)[:-1]) if self.sizes else []
        leaves = [
            np.reshape(part[0::2] + 1j * part[1::2] if is_complex else part, shape)[()]
            for part, (shape, is_complex) in zip(parts, self.leaves, strict=True)
        ]
        return self.structure.unflatten(leaves)

    def add(self, x, y):
        return self.vector(self.coordinates(x) + self.coordinates(y))

    def scalar_mul(self, x, a):
        return self.vector(self.coordinates(x) * a)

    def inner_prod(self, x, y):
        return np.dot(self.coordinates(x), self.coordinates(y))

    def covector(self, x):
        return optree.tree_map(np.conj, x)

    def zeros(self):
        return self.vector(np.zeros(self.size))

    def ones(self):
        return self.vector(np.ones(self.size))

    def randn(self):
        return self.vector(np.random.randn(self.size))  # noqa: NPY002 (the tests seed it)

    def standard_basis(self):
        return map(self.vector, np.eye(self.size))


# --- autograd's verbs, by those of one mode ------------------------------------------------------------------------------------------


def nary(verb):
    """Return a verb of a function of one argument as one of any function: autograd's `unary_to_nary`."""

    @functools.wraps(verb)
    def of_arguments(f, argnum=0, *options, **keywords):
        several = not isinstance(argnum, int)

        def differentiated(*args, **kwargs):
            def unary(x):
                replaced = dict(zip(argnum, x, strict=True)) if several else {argnum: x}
                return f(*(replaced.get(i, arg) for i, arg in enumerate(args)), **kwargs)

            unary.__name__ = getattr(f, "__name__", "f")
            return verb(unary, tuple(args[i] for i in argnum) if several else args[argnum], *options, **keywords)

        return differentiated

    return of_arguments


def forward_jvp(f, x):
    return lambda v: dualad.jvp(f, (x,), (v,))


def forward_vjp(f, x):
    """Return the pullback by all columns at once, and the value."""
    space, value = Space(x), f(x)
    image, start = Space(value), space.coordinates(x)

    def pull(g):
        along = dualad.gradient(lambda r: image.inner_prod(image.covector(g), f(space.vector(r))))
        return space.covector(space.vector(along(start)))

    return pull, value


def forward_grad(f, x):
    leaves = optree.tree_leaves(x)
    return dualad.gradient(f)(x) if leaves and not any(map(np.iscomplexobj, leaves)) else forward_vjp(f, x)[0](1.0)


def reverse_jvp(f, x):
    value, push = checkpoint.linearize(f, x)
    return lambda v: (value, push(v))


def reverse_vjp(f, x):
    value, pull = checkpoint.vjp(f, x)
    return lambda g: pull(g)[0], value


def reverse_grad(f, x):
    return checkpoint.grad(f)(x)


MODES = {
    "reverse": (reverse_jvp, reverse_vjp, reverse_grad, checkpoint.jacobian),
    "forward": (forward_jvp, forward_vjp, forward_grad, dualad.jacobian),
}


def verbs_of(mode):
    """Return autograd's verbs and checks, made of the products and gradients of one mode."""
    jvp, vjp, gradient, jacobian = MODES[mode]

    def one_number(f):
        """Return `f` with its result, an array of one number, as a number."""

        def number(x):
            y = f(x)
            return np.reshape(y, ()) if getattr(y, "shape", ()) and np.size(y) == 1 else y

        return number

    def grad(f, x):
        return gradient(one_number(f), x)

    def value_and_grad(f, x):
        return f(x), grad(f, x)

    def grad_and_aux(f, x):
        return grad(lambda x: f(x)[0], x), f(x)[1]

    def elementwise_grad(f, x):
        pull, value = vjp(f, x)
        return pull(np.ones_like(value))

    def deriv(f, x):
        return jvp(f, x)(np.ones_like(x))[1]

    def holomorphic_grad(f, x):
        return grad(lambda x: np.real(f(x)), x)

    def jacobian_of_one(f, x):
        return jacobian(f)(x)

    def hessian(f, x):
        return jacobian(jacobian(one_number(f)))(x)

    def make_hvp(f, x):
        product = jvp(lambda x: grad(f, x), x)
        return lambda v: product(v)[1], grad(f, x)

    def hessian_tensor_product(f, argnum=0):
        return nary(lambda f, x: jvp(lambda x: grad(f, x), x))(f, argnum)

    def make_ggnvp(f, g=lambda y: 0.5 * np.sum(y**2, axis=-1), f_argnum=0):
        def products(f, x):
            push, (pull, y) = jvp(f, x), vjp(f, x)
            return lambda v: pull(make_hvp(g, y)[0](push(v)[1]))

        return nary(products)(f, f_argnum)

    def with_tensor(verb):
        """Return a verb of functions whose last argument is a tensor that stands at the derivative."""
        return lambda f, argnum=0: lambda *args: nary(functools.partial(verb, args[-1]))(f, argnum)(*args[:-1])

    def difference(f, x, v, step=1e-6):
        space, image = Space(x), Space(f(x))
        ends = [image.coordinates(f(space.add(x, space.scalar_mul(v, h)))) for h in (step / 2, -step / 2)]
        return (ends[0] - ends[1]) / step

    def check_one(f, x, kind):
        space, image = Space(x), Space(f(x))
        v, w = space.randn(), image.randn()
        numeric = np.dot(image.coordinates(w), difference(f, x, v))
        if kind == "JVP":
            tangent = jvp(f, x)(v)[1]
            assert Space(tangent) == image, f"the tangent of {f.__name__} has another structure than the value"
            exact = image.inner_prod(w, tangent)
        else:
            cotangent = vjp(f, x)[0](image.covector(w))
            assert Space(cotangent) == space, f"the cotangent of {f.__name__} has another structure than the argument"
            exact = space.inner_prod(space.covector(cotangent), v)
        assert scalar_close(numeric, exact), f"Derivative ({kind}) check of {f.__name__} failed with {x}: {exact}, by differences {numeric}"

    def check_grads(f, x, modes=("fwd", "rev"), order=2):
        # both kinds of products are computed by this mode; where a test asks for both, its own
        kind = "VJP" if "rev" in modes and (mode == "reverse" or "fwd" not in modes) else "JVP"
        check_one(f, x, kind)
        if order > 1:
            product = (lambda x, g: vjp(f, x)[0](g)) if kind == "VJP" else (lambda x, v: jvp(f, x)(v)[1])
            product.__name__ = f"{kind.lower()}_{f.__name__}"
            nary(check_grads)(product, (0, 1), modes, order - 1)(x, Space(f(x) if kind == "VJP" else x).randn())

    def combo_check(f, *options, **keywords):
        def check(*args, **kwargs):
            for values in itertools.product(*args):
                for chosen in itertools.product(*kwargs.values()):
                    nary(check_grads)(f, *options, **keywords)(*values, **dict(zip(kwargs, chosen, strict=True)))

        return check

    unary = [jvp, vjp, grad, value_and_grad, grad_and_aux, elementwise_grad, deriv, holomorphic_grad, hessian, make_hvp, check_grads]
    verbs = {verb.__name__.removeprefix(f"{mode}_"): nary(verb) for verb in unary}
    return {
        **verbs,
        "make_jvp": verbs["jvp"],
        "make_vjp": verbs["vjp"],
        "jacobian": nary(lambda f, x: jacobian(f)(x)),
        "make_ggnvp": make_ggnvp,
        "hessian_tensor_product": with_tensor(lambda v, f, x: jvp(lambda x: grad(f, x), x)(v)[1]),
        "tensor_jacobian_product": with_tensor(lambda v, f, x: jacobian(lambda x: np.tensordot(v, f(x), np.ndim(v)))(x)),
        "combo_check": combo_check,
        "quick_grad_check": lambda f, x, rest=(), **_: check_grads(lambda x: f(x, *rest), x, order=1),
    }


def scalar_close(a, b):
    return abs(a - b) < 1e-6 or abs(a - b) / abs(a + b) < 1e-6


def check_equivalent(x, y):
    space = Space(x)
    assert space == Space(y), f"{x} and {y} differ in structure"
    v = space.randn()
    assert scalar_close(space.inner_prod(x, v), space.inner_prod(y, v)), f"{x} is not {y}"


# --- its rules, modules and signatures -------------------------------------------------------------------------------------------------


def primitive(fn):
    """Return a function that takes rules as autograd's: a pullback for each argument, of which the JVP is the transpose."""
    made, pulls = dualad.primitive(fn), {}

    def pull(i):
        return lambda g, ans, *args: pulls[i](ans, *args)(g)

    def push(i):
        return lambda t, ans, *args: checkpoint.vjp(lambda g: pull(i)(g, ans, *args), np.zeros_like(ans))[1](t)[0]

    def defgrad(maker, argnum=0):
        if not pulls:
            places = range(len(inspect.signature(fn).parameters))
            dualad.rules.explicit(made, tuple(map(push, places)), tuple(map(pull, places)))
        pulls[argnum] = maker

    def deprecated(maker, argnum=0):
        defgrad(lambda ans, *args: lambda g: maker(g, ans, None, None, *args), argnum)

    def without(argnums):
        for argnum in argnums:
            defgrad(lambda ans, *args, argnum=argnum: lambda g: np.zeros_like(args[argnum]), argnum)

    made.defgrad, made.defvjp, made.defvjp_is_zero = defgrad, deprecated, without
    return made


def defvjp(fn, *makers):
    for argnum, maker in enumerate(makers):
        fn.defgrad(maker, argnum)


def const_graph(f, *args, **kwargs):
    return dualad.jit(functools.partial(f, *args, **kwargs), verify=False)


def where(condition, x=None, y=None):
    return np.where(condition) if x is None else np.where(condition, x, y)


def make_diagonal(d, offset=0, axis1=-1, axis2=-2):
    if (offset, axis1, axis2) != (0, -1, -2):
        raise NotImplementedError
    return d[..., None] * np.eye(d.shape[-1])


def install(mode):
    """Enter modules of autograd's names, of what has an equal here; return the first."""
    from scipy import linalg, signal, special, stats

    verbs = verbs_of(mode)
    both = {"primitive": primitive}
    numpys = {name: value for name in np.__all__ if not isinstance(value := getattr(np, name), dict)}
    builtin = {kind.__name__: kind for kind in (tuple, list, dict, isinstance, type)}
    contents = {
        "autograd": {**verbs, **builtin, "checkpoint": checkpoint.checkpoint, "__path__": []},
        "autograd.core": {**both, "make_vjp": MODES[mode][1], "vspace": Space, "primitive_vjps": dualad.rules.ROWS},
        "autograd.builtins": builtin,
        "autograd.extend": {**both, "defvjp": defvjp, "vspace": Space},
        "autograd.tracer": {**both, "isbox": lambda x: hasattr(type(x), "__dualad_apply__")},
        "autograd.wrap_util": {"unary_to_nary": nary},
        "autograd.util": verbs,
        "autograd.misc": {"flatten": dualad.flatten, "const_graph": const_graph},
        "autograd.test_util": {**verbs, "scalar_close": scalar_close, "check_equivalent": check_equivalent},
        "autograd.numpy": {**numpys, "where": where, "make_diagonal": make_diagonal},
        "autograd.scipy": {"__path__": []},
        "autograd.scipy.integrate": {"odeint": checkpoint.odeint},
    }
    for name, content in contents.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(content)
    sys.modules |= {"autograd.numpy.random": np.random, "autograd.scipy.stats.multivariate_normal": stats.multivariate_normal}
    sys.modules |= {f"autograd.scipy.{module.__name__.partition('.')[2]}": module for module in (linalg, signal, special, stats)}
    for name, module in list(sys.modules.items()):
        if name.startswith("autograd."):
            parent, _, attribute = name.rpartition(".")
            setattr(sys.modules[parent], attribute, module)
    return sys.modules["autograd"]


class Outcomes:
    """A plugin of pytest: adapts what each test calls, and prints what becomes of it, tab-separated."""

    def __init__(self, autograd):
        self.autograd = autograd

    def pytest_runtest_call(self, item):
        adapted = dualad.adapt(item.module, self.autograd, *filter(None, [sys.modules.get("numpy_utils")]))
        item.addfinalizer(lambda: adapted.__exit__())
        adapted.__enter__()

    def pytest_collectreport(self, report):
        if report.failed:
            self.show(report, "all of it")

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.show(report, report.location[2])

    def show(self, report, test):
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = " ".join(f"{crash.message if crash else report.longrepr or ''}".split())
        print(Path(report.fspath).name, test, report.outcome, reason, sep="\t", file=sys.__stdout__, flush=True)


def run(mode, tests):
    import pytest

    quiet = ["--continue-on-collection-errors", "-c", "/dev/null", "-p", "no:terminal", "-p", "no:cacheprovider"]
    return pytest.main([*quiet, f"--rootdir={Path(tests[0]).parent}", *tests], plugins=[Outcomes(install(mode))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder tests of autograd's source distribution")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--tests", nargs="+", default=["."], help="files of the folder")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    tests = [str((options.folder / name).resolve()) for name in options.tests]
    if options.inside:
        return run(*options.modes, tests)
    counts = collections.defaultdict(collections.Counter)
    for mode in options.modes:
        for file, test, outcome, reason in rows_of(
            "autograd_suite", str(options.folder), "--inside", "--tests", *options.tests, "--modes", mode
        ):
            counts[file][f"{mode} {outcome}"] += 1
            if outcome != "passed":
                print(f"{mode} {outcome}: {file} {test}\n    {reason[:300]}")
    print("\n" + counts_table("file", counts))
    return None


if __name__ == "__main__":
    sys.exit(main())
