"""Where code asks a traced value for what only plain ones have: it works where no derivative is lost, and else says what to do."""

import logging
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from checkpoint import grad
from dualad import Dual, gradient, hessian, jit
from dualad.graph.trace import TraceError

X = np.array([1.0, 2.0])
VERBS = {"gradient": gradient, "grad": grad, "order 2": lambda f: hessian(f, nan_safe=True)}
TESTS = {
    "assert_allclose": lambda x, y: np.testing.assert_allclose(x, y),
    "assert_array_equal": lambda x, y: np.testing.assert_array_equal(x, y),
    "assert_equal": lambda x, y: np.testing.assert_equal(x, y),
    "assert_almost_equal": lambda x, y: np.testing.assert_almost_equal(x[0], y[0]),
    "assert_array_almost_equal": lambda x, y: np.testing.assert_array_almost_equal(x, y),
    "assert_array_max_ulp": lambda x, y: np.testing.assert_array_max_ulp(x, y),
    "assert_array_almost_equal_nulp": lambda x, y: np.testing.assert_array_almost_equal_nulp(x, y),
    "assert_approx_equal": lambda x, y: np.testing.assert_approx_equal(x[0], y[0]),
    "assert_array_less": lambda x, y: np.testing.assert_array_less(x - 1e-9, y),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("check", TESTS.values(), ids=TESTS)
def test_assertions_of_numpy_compare_the_values(check, verb):
    def program(other):
        def f(x):
            check(x * x, other)
            return np.sum(x**3)

        return f

    np.testing.assert_allclose(verb(program(X * X))(X), verb(lambda x: np.sum(x**3))(X))
    with pytest.raises(AssertionError):
        verb(program(X * X - 0.1))(X)


def test_assertions_of_traced_code_name_the_line():
    with pytest.raises(TraceError, match=r"test_plain_asked.py, line \d+: .*asserting needs a plain value"):
        jit(lambda x: np.testing.assert_allclose(x, X) or np.sum(x))(X)


MEMORY = ["base", "byteswap", "ctypes", "data", "dumps", "setflags", "strides", "tobytes", "tofile"]


@pytest.mark.parametrize("verb", [gradient, grad, jit])
@pytest.mark.parametrize("name", MEMORY)
def test_attributes_that_show_the_memory(name, verb):
    assert hasattr(X, name) and name not in dir(Dual(X))
    with pytest.raises(AttributeError, match=rf"^a traced \w+ has no '{name}': .*dualad\.primal\(x\)\.{name} is that of the value"):
        verb(lambda x: getattr(x, name) and np.sum(x))(X)
    assert np.all(verb(lambda x: np.sum(x) * (7.0 if hasattr(x, name) else 1.0))(X) == verb(np.sum)(X))


@pytest.mark.parametrize("verb", [gradient, grad, lambda f: jit(grad(f))], ids=["gradient", "grad", "jit"])
def test_views_and_flags_are_those_of_the_value(verb):
    def f(x):
        y = np.outer(x, x).T
        assert y.flags.f_contiguous and not y.flags["C_CONTIGUOUS"] and y.flags.writeable
        shown = y.view(np.ndarray).view().view(np.float64).view(type=np.recarray)
        shown[0, 1] = x[0] ** 3
        return np.sum(y)

    np.testing.assert_allclose(verb(f)(X), [3.0 + 2.0 + 2.0, 1.0 + 4.0], rtol=1e-15)
    kinds = {
        np.matrix: "numpy.matrix together",
        np.ma.MaskedArray: "its mask would be lost",
        np.int64: "seen as int64",
        "c16": "complex128",
    }
    for kind, words in {**kinds, type("Own", (np.ndarray,), {}): r"^view: a traced \w+ cannot be seen as Own: .*dualad\.primal"}.items():
        with pytest.raises(TypeError, match=words):
            verb(lambda x, kind=kind: np.sum(x.view(kind)))(X)
    with pytest.warns(PendingDeprecationWarning), pytest.raises(TypeError, match=r"numpy\.matrix together"):
        verb(lambda x: np.sum(np.asmatrix(x)))(X)
    with pytest.raises(AttributeError, match="has no 'flags'"):
        verb(lambda x: x[0].flags)(X)


@pytest.mark.parametrize("verb", [gradient, grad])
def test_fractions_are_numbers_beside_traced_ones(verb):
    half = Fraction(1, 2)
    assert verb(lambda x: half * x + x * half + x**half + half / x - (x - half) * (half - x))(4.0) == pytest.approx(
        1.0 + 0.25 - 0.5 / 16.0 + 2.0 * 3.5
    )
    np.testing.assert_allclose(verb(lambda x: np.sum(half * x * x))(X), X)


NUMBERS = {
    "Fraction": (lambda x: Fraction(x), r"a ratio of integers \(Fraction\) of a traced \w+ would lose its derivative"),
    "Decimal": (lambda x: Decimal(x), "Decimal is not supported"),
    "times a Decimal": (lambda x: x * Decimal("0.5"), "unsupported operand"),
    "Decimal times": (lambda x: Decimal("0.5") * x, "unsupported operand"),
}


@pytest.mark.parametrize("verb", [gradient, grad])
@pytest.mark.parametrize("name", NUMBERS)
def test_exact_numbers_of_traced_ones_raise(name, verb):
    make, message = NUMBERS[name]
    with pytest.raises(TypeError, match=message) as caught:
        verb(make)(2.0)
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert ("dualad.primal" in told) or ("in <lambda>" in told and "test_plain_asked.py" in told and "dualad.stop_gradient(x)" in told)


TEXTS = {
    "float": (lambda x: float(f"{x:.3f}"), r"float\(\) of '2.000', the text of a traced value, would lose its derivative"),
    "format": (lambda x: float("{:.18f}".format(x)), "would lose its derivative"),  # noqa: UP032
    "float64": (lambda x: np.float64(format(x, ".3f")), "would lose its derivative"),
    "len": (lambda x: x * len(f"{x}"), "len of .* is not that of its number"),
    "==": (lambda x: x * (f"{x}" == "2.0"), "eq of "),
    "in": (lambda x: x * ("2" in f"{x}"), "contains of "),
    "[]": (lambda x: x * int(f"{x}"[0]), "getitem of "),
    "digits": (lambda x: x * sum(map(len, f"{x}")), "iter of "),
    "split": (lambda x: float("{}".format(x).split(".")[0]), "split of "),  # noqa: UP032
}


@pytest.mark.parametrize("verb", [gradient, grad, jit])
@pytest.mark.parametrize("name", TEXTS)
def test_no_number_is_read_from_a_text(name, verb):
    f, message = TEXTS[name]
    with pytest.raises(TypeError, match=message if verb is not jit else f"{message}|needs a plain value"):
        verb(f)(2.0)


@pytest.mark.parametrize("verb", [gradient, grad, jit])
@pytest.mark.filterwarnings("ignore:jit. .* while it is traced")
def test_texts_are_shown(verb, capsys, caplog):
    def f(x):
        print(x, f"{x}", f"x = {x}", "{}".format(x) + "!", sep="\n")  # noqa: UP032
        logging.getLogger("texts").warning("%s", f"{x}")
        warnings.warn(f"{x}", stacklevel=1)
        return x * (1.0 if verb is jit else float(int(f"{x:.0f}")) * (f"{x:.1f}" == "2.0"))

    with pytest.warns(UserWarning, match=r"\("):
        assert verb(f)(2.0) == 2.0
    text = caplog.messages[0]
    assert text[-1] == ")" and set(capsys.readouterr().out.splitlines()) >= {text, f"x = {text}", f"{text}!"}


def elsewhere(x):
    """Raise as a function of JAX does: it names the type that it does not know, and shows no statement that raises."""
    if type(x) is np.ndarray:
        return x
    (_ for _ in ()).throw(TypeError(f"Argument of type {type(x)} is not a valid JAX type."))


@pytest.mark.parametrize("verb", [gradient, grad, jit])
def test_errors_that_name_a_traced_value_say_what_to_do(verb):
    with pytest.raises(TypeError, match="not a valid JAX type") as caught:
        verb(lambda x: elsewhere(x))(X)
    (note,) = caught.value.__notes__
    assert note.startswith("a traced value was given to code that takes plain ones, in ")
    assert "test_plain_asked.py" in note and "dualad.primitive" in note
