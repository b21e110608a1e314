"""Fit: whatever of what a function reads is changed, no old result is given, in this process or in the next one."""

import collections
import functools
import logging
import sys
import threading
import types
from collections import defaultdict
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import outside_changes
import outside_functions
import pytest
from fits import anew
from in_groups import for_each

from checkpoint import Fit, chain, grad, value_and_grad
from checkpoint.durable import fit as module
from checkpoint.durable import fit_folder

pytestmark = pytest.mark.slow


@dataclass
class Model:
    rate: float = 2.0
    table: dict = field(default_factory=lambda: {"a": [1.0, 2.0]})

    def __call__(self, x):
        return self.rate * x

    def scaled(self, x):
        return self.factor() * x + self.table["a"][1]

    def factor(self):
        return self.rate


class Slots:
    __slots__ = ("rate",)


def users_module():
    """A module of the user's."""
    made = types.ModuleType("users_module")
    made.__file__ = "/home/me/users_module.py"
    exec("def helper(x):\n    return RATE * x\nRATE = 2.0", made.__dict__)
    return made


def slots(rate):
    made = Slots()
    made.rate = rate
    return made


sparse = pytest.importorskip("scipy.sparse")


class Sub(dict):
    pass


def held(value, change, read):
    """Return what makes a function that reads a value, and its change."""
    return lambda: (lambda x: x * read(value), lambda: change(value))


def module_by_name():
    sys.modules["module_of_a_fit"] = types.ModuleType("module_of_a_fit")
    held = vars(sys.modules["module_of_a_fit"])
    held["rate"] = 2.0
    return lambda x: x * sys.modules["module_of_a_fit"].rate, lambda: held.update(rate=3.0)


def method_that_is_an_object():
    class Scaled:
        __call__ = model = Model()

    return Scaled(), lambda: setattr(Scaled.model, "rate", 3.0)


#: what compiled functions have not among their cases
CHANGES = {
    "type": held([1], lambda v: v.__setitem__(0, 1.0), lambda v: 1.0 if type(v[0]) is int else 2.0),
    "names of fields": held(
        np.array([(1.0, 2.0)], [("a", float), ("b", float)]), lambda v: setattr(v.dtype, "names", ("b", "a")), lambda v: v["a"][0]
    ),
    "set of texts": held({"a", "b"}, lambda v: v.add("AAAA"), lambda v: len(sorted(v)[0])),
    "default": held(defaultdict(lambda: 1.0), lambda v: setattr(v, "default_factory", lambda: 2.0), lambda v: v.default_factory()),
    "attribute of a dict": held(Sub(), lambda v: setattr(v, "rate", 2.0), lambda v: getattr(v, "rate", 1.0)),
    "sparse indices": held(sparse.csr_array(np.eye(2)), lambda v: v.indices.__setitem__(0, 1), lambda v: v[0, 0]),
    "generator": held(np.random.default_rng(1), lambda v: v.normal(), lambda v: v.bit_generator.state["state"]["state"] % 97),
    "fraction": held([Fraction(1, 2)], lambda v: v.__setitem__(0, Fraction(1, 3)), lambda v: float(v[0])),
    "method of a number": held([(2.0).__mul__], lambda v: v.__setitem__(0, (2.0).__add__), lambda v: v[0](3.0)),
    "module by name": module_by_name,
    "method that is an object": method_that_is_an_object,
    "date": held([np.datetime64("2020-01-01")], lambda v: v.__setitem__(0, np.datetime64("2020-01-02")), lambda v: v[0].astype(int)),
    **outside_functions.CASES,
    **outside_changes.CASES,
    **outside_functions.scipy_cases(),
}
#: what a fit does not look into
UNSEEN_BY_A_FIT = {
    "memoryview", "weak dict", "context variable", "context variable, default", "thread local", "environment",
    "iterator of arrays", "flat iterator", "global, by globals()", "import by a computed name",
    "what makes another instance", "method that makes another instance", "method that makes another data class",
}  # fmt: skip


@for_each("name", [name for name in CHANGES if name not in UNSEEN_BY_A_FIT])
def test_nothing_old_is_answered(name, tmp_path, not_again):
    """Not by chance of a comparison: none is made."""
    f, change = CHANGES[name]()
    fit, x, same = Fit(tmp_path / name.replace(" ", "_"), every=1e6), np.array([1.0, 2.0, 3.0]), np.testing.assert_array_equal
    g, before = fit(f, name="f"), f(x)
    same([g(x), g(x)], [before, before])
    assert (fit.made, fit.answered) == (1, 1)
    change()
    assert not np.array_equal(f(x), before), "it is a change"
    same([g(x), g(x)], [f(x), f(x)])
    assert (fit.made, fit.answered) == (2, 2)
    with pytest.raises(ValueError, match="belongs to another function f; it differs in: "):
        anew(fit)(f, name="f")
    fit_folder.give_free()


def test_what_holds_a_lock_or_a_file_counts_by_its_class(fit, tmp_path):
    """It cannot be pickled, and what else is in it, such as times, is another thing in each process."""

    def made(number, file):
        bar = types.SimpleNamespace()
        bar.event, bar.values = threading.Event(), {threading.Lock(), 1.0}
        queue = collections.deque([threading.Lock(), number])
        logger = logging.getLogger("fit")

        def f(x):
            bar.event.set()
            logger.debug("x")
            print(x, file=file)
            return x + len(bar.values) + len(queue)

        return f

    with open(tmp_path / "one", "w") as one, open(tmp_path / "two", "w") as two:
        assert fit(made(1.0, one))(1.0) == 5.0
        again = anew(fit)
        assert again(made(2.0, two))(1.0) == 5.0 and again.answered == 1


class Problem:
    """As users write them: what is set when it is made, and no method reads, is no part of the function."""

    def __init__(self, began):
        self.began, self.data, self.calls, self.lock = began, np.ones(3), 0, threading.Lock()

    def loss(self, x):
        with self.lock:
            self.calls += 1
        return float(np.sum(self.data)) * x


def test_what_no_method_reads_is_no_part(fit):
    first, second = Problem(1.0), Problem(2.0)
    assert fit(first.loss)(1.0) == 3.0
    again = anew(fit)
    f = again(second.loss)
    assert f(1.0) == 3.0 and again.answered == 1
    second.data[0] = 5.0
    assert f(1.0) == 7.0
    with pytest.raises(ValueError, match="it differs in: data"):
        anew(fit)(second.loss)


def test_objects_that_are_called(fit, not_again):
    for f, holder in ((model := Model(2.0), model), (np.vectorize(model := Model(2.0)), model)):
        g = fit(f, name=type(f).__name__)
        assert g(1.5) == 3.0
        holder.rate = 3.0
        assert g(1.5) == 4.5


def test_an_import_inside(fit, monkeypatch, not_again):
    user = users_module()
    monkeypatch.setitem(sys.modules, "users_module", user)

    def f(x):
        from users_module import helper

        return helper(x)

    g = fit(f)
    before = g(1.0)
    monkeypatch.setattr(user, "RATE", user.RATE + 1.0)
    assert g(1.0) == f(1.0) != before


@pytest.mark.parametrize("options", [{"argnums": 1}, {"nan_safe": True}, {"has_aux": True}])
def test_the_settings_of_a_verb_count(fit, options):
    f = lambda a, b: a * b
    fit(grad(f), name="f")
    with pytest.raises(ValueError, match="differs in: the verb"):
        fit(grad(f, **options), name="f")
    with pytest.raises(ValueError, match="differs in: the verb"):
        fit(value_and_grad(f), name="f")


def test_arguments_of_all_kinds(fit, unseen, monkeypatch):
    """Each another evaluation, also functions that differ in what they close over alone, units, labels, masks and layouts."""

    def scaled(rate):
        return lambda x: rate * x

    different = [scaled(1.0), scaled(2.0), functools.partial(max, 1.0), functools.partial(max, 2.0), np.max, np.min, Model(1.0), Model(2.0)]
    different += [Model(1.0).scaled, Model(2.0).scaled, slots(1.0), slots(2.0), {1.0}, {2.0}, types.SimpleNamespace(a=1)]
    different += [np.ma.masked_array([1.0, 2.0], mask) for mask in ([0, 0], [0, 1])] + [np.array([1.0, 2.0]), np.array([1.0, None])]
    square = np.arange(4.0).reshape(2, 2)
    different += [square, np.asfortranarray(square), square.astype(np.float32), square.view(">f8")]
    different += [sparse.csr_matrix(square), sparse.csc_matrix(square), sparse.csr_array(square), np.random.default_rng(1)]
    different += [np.datetime64(text) for text in ("2020-01-01", "2020-01")]
    different += [1, 1.0, True, 0.0, -0.0, 1j, "1", b"1", None, (), [], {}, (1,), [1]]
    f = fit(lambda x: UNSEEN.get().rate, name="f")
    for number, value in enumerate(different):
        unseen.rate = number + 1
        assert f(value) == number + 1, value
    assert fit.made == len(different)
    monkeypatch.setattr(module.DurableFunction, "_same", lambda *arguments: True)
    for number, value in enumerate(different):
        assert f(value) == number + 1
    for value in (object(), (i for i in range(3)), [iter("ab"), object()]):
        with pytest.raises(TypeError, match=r"Fit: an argument has a leaf of type (object|generator), whose data cannot be compared"):
            f(value)


@pytest.mark.parametrize("package", ["pandas", "pint"])
def test_labels_and_units(fit, package):
    library = pytest.importorskip(package)
    if package == "pandas":
        first, second = library.Series([1.0, 2.0], index=["a", "b"]), library.Series([1.0, 2.0], index=["b", "a"])
        f = fit(lambda x: float(x["a"]), name="f")
    else:
        unit = library.UnitRegistry()
        first, second = 2.0 * unit.meter, 2.0 * unit.feet
        f = fit(lambda x: float(x.to("m").magnitude), name="f")
    assert f(first) != f(second) and fit.made == 2 and f(first) == f.__wrapped__(first) and fit.answered == 1


def test_what_it_changes_itself_is_no_other_function(fit):
    """Counters, logs and caches, of a global, an object, a container: the results are found again, in the next process too."""

    def made():
        log, model, calls = [], Model(), {"f": 0, "rate": 2.0}

        def f(x):
            log.append({"x": x})
            model.calls = getattr(model, "calls", 0) + 1
            calls["f"] += 1
            return model.rate * calls["rate"] * x

        return f, model, calls

    f, model, calls = made()
    g = fit(f)
    assert [g(0.5 * k) for k in range(4)] == [2.0 * k for k in range(4)] and fit.made == 4
    assert [g(0.5 * k) for k in range(4)] == [2.0 * k for k in range(4)] and fit.made == 4
    again = anew(fit)
    f, model, calls = made()
    g = again(f)
    assert [g(0.5 * k) for k in range(5)] == [2.0 * k for k in range(5)] and (again.made, again.answered) == (1, 4)
    model.rate = 3.0
    assert g(0.5) == 3.0, "its other parts still count"
    calls["rate"] = 3.0
    assert g(0.5) == 4.5


def test_what_is_put_into_a_log_still_counts(fit, not_again):
    """Of an object that the function reads and puts into a container, too, which is another way to it from then on."""
    alog, model, zlog = [], Model(), []

    def f(x):
        alog.append(model)
        zlog.append({"model": model})
        return model.rate * x

    g = fit(f)
    assert [g(1.0), g(2.0), g(1.0), g(2.0)] == [2.0, 4.0, 2.0, 4.0] and fit.made == 2
    model.rate = 3.0
    assert [g(1.0), g(2.0)] == [3.0, 6.0]


def test_a_change_and_back_is_found_again(fit):
    """As a penalty that grows from one minimization to the next, also where the script is run again."""

    def made():
        weight = [1.0]
        return weight, lambda x: weight[0] * x

    for each, counts in ((fit, (3, 1)), (anew(fit), (0, 4))):
        weight, f = made()
        g = each(f, name="f")
        found = []
        for weight[0] in (1.0, 2.0, 4.0, 1.0):
            found.append(g(1.5))
        assert found == [1.5, 3.0, 6.0, 1.5] and (each.made, each.answered) == counts


HELD = types.SimpleNamespace(rate=2.0, calls=0, steps=[])
UNSEEN = ContextVar("what is not looked into", default=HELD)


@pytest.fixture
def unseen():
    held = UNSEEN.get()
    held.rate, held.calls, held.steps = 2.0, 0, []
    return held


def hidden(x):
    unseen = UNSEEN.get()
    unseen.calls += 1
    return {"value": unseen.rate * x}


MATCH = r"hidden is not reproducible: evaluated again, it differs from the result in"


def test_what_is_not_seen_shows_in_results(fit, unseen):
    """In the first answer of each process, and then in the second, fourth, eighth ..."""
    f = fit(hidden)
    for _ in range(101):
        assert f(3.0) == {"value": 6.0}
    assert fit.answered == 100 and unseen.calls == 1 + 7, "1, 2, 4, 8, 16, 32, 64"
    unseen.rate = 2.5
    with pytest.raises(ValueError, match=MATCH):
        for _ in range(30):
            f(3.0)
    with pytest.raises(ValueError, match=MATCH):
        anew(fit)(hidden)(3.0)
    unseen.rate = 2.0
    assert anew(fit)(hidden)(3.0) == {"value": 6.0}


def test_long_ones_are_not_made_again(fit, unseen, monkeypatch):
    """Where they have no chain, unless they fit into the share of the time."""
    fit(hidden)(3.0)
    monkeypatch.setattr(module, "COMPARED_SECONDS", 0.0)
    monkeypatch.setattr(module, "COMPARED_SHARE", 0.0)
    again = anew(fit)
    assert again(hidden)(3.0) == {"value": 6.0} and unseen.calls == 1
    monkeypatch.setattr(module, "COMPARED_SHARE", 1e9)
    assert again(hidden)(3.0) == {"value": 6.0} and unseen.calls == 2


def stepwise(k, x):
    unseen = UNSEEN.get()
    unseen.steps.append(k)
    return x + 0.1 * unseen.rate * np.sin(x)


@pytest.mark.parametrize("verb", [lambda f: f, value_and_grad])
def test_of_long_ones_the_first_step_of_the_chain_is(fit, unseen, monkeypatch, verb):
    energy = lambda fit: verb(lambda x: np.sum(chain(stepwise, x, steps=20, storage=fit) ** 2))
    x = np.linspace(0.1, 0.9, 3)
    found = fit(energy(fit), name="energy")(x)
    monkeypatch.setattr(module, "COMPARED_SECONDS", 0.0)
    monkeypatch.setattr(module, "COMPARED_SHARE", 0.0)
    has_chain = verb is value_and_grad  # of plain values it is a loop, which keeps nothing
    again, unseen.steps = anew(fit), []
    assert str(again(energy(again), name="energy")(x)) == str(found) and set(unseen.steps) == ({0} if has_chain else set())
    if has_chain:
        unseen.rate = 2.1
        again, unseen.steps = anew(fit), []
        with pytest.raises(ValueError, match="energy is not reproducible"):
            again(energy(again), name="energy")(x)
        assert unseen.steps[0] == 0 and max(unseen.steps) == 19, "the last digits of one step decide nothing"
    assert {path.suffix for path in fit.path.iterdir()} == {".log", ".json", ""}


def test_a_compared_evaluation_leaves_nothing(durable, unseen):
    fit = durable
    energy = lambda fit: grad(lambda x: np.sum(chain(stepwise, x, steps=20, storage=fit) ** 2))
    fit(energy(fit), name="f")(np.ones(2))
    fit_folder.give_free()
    again = Fit(fit.path, every=0)
    again(energy(again), name="f")(np.ones(2))
    assert again.answered == 1 and len(unseen.steps) > 2 * 20
    assert sorted(path.name for path in fit.path.iterdir()) == ["fit.json", "lock", "results.log"]
