"""The short way of a call: the second call of each kind takes it, and gives the same; what it was not made for it leaves alone."""

from collections import Counter, OrderedDict, defaultdict, namedtuple
from functools import partial
from itertools import permutations

import numpy as np
import optree
import pytest
from comparing import same
from in_groups import for_each

from dualad import gradient, jit, jvp
from dualad.jit.guards import MISS
from dualad.support.costs import WATCHED_LENGTH

Point = namedtuple("Point", "x y")
X = np.arange(6.0)
READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False
UNALIGNED = np.zeros(49, np.uint8)[1:].view(float)


def double(x):
    return optree.tree_map(
        lambda leaf: leaf * 2 if isinstance(leaf, int | float | complex | np.number) or hasattr(leaf, "shape") else leaf, x
    )


#: arguments that are guarded, and others of a like kind that are not the same
GUARDED = {
    "float": (2.0, np.float64(2.0)),
    "int": (3, 3.0),
    "complex": (1j, np.complex64(1j)),
    "float32": (np.float32(2.0), 2.0),
    "array": (X, X.astype(np.float32)),
    "shape": (X, X[:5]),
    "rank": (X, X.reshape(2, 3)),
    "no axes": (np.array(2.0), np.float64(2.0)),
    "empty": (X[:0], X),
    "read only": (READ_ONLY, X.reshape(6, 1)),
    "order": (np.asfortranarray(X.reshape(2, 3)), X.reshape(2, 3)),
    "strides": (X[::2], X[:3]),
    "tuple": ((1.0, X), [1.0, X]),
    "named tuple": (Point(X, 2.0), (X, 2.0)),
    "dict": ({"b": X, "a": (1.0, [2])}, {"b": X, "c": (1.0, [2])}),
    "order of keys": ({"b": X, "a": X}, {"a": X, "b": X}),
    "None": ((None, X), (1.0, X)),
    "bool": ((True, X), (False, X)),
    "text": (("up", X), ("down", X)),
    "function": ((np.sin, X), (np.cos, X)),
}
#: arguments that go the long way
LONG = {"ordered dict": OrderedDict(b=1.0, a=X), "unaligned": UNALIGNED, "subclass": np.memmap, "np.bool_": np.bool_(True)}


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@for_each("name", GUARDED)
def test_second_calls_are_short_and_others_are_not_taken_for_them(name, backend):
    given, other = GUARDED[name]
    f = jit(lambda x: double(x), backend=backend, verify=False)
    f(given)
    (guard,) = f.guards
    same(guard((given,), {}), double(given))
    assert guard((other,), {}) is MISS and guard((given, 1.0), {}) is MISS and guard((), {}) is MISS and guard((given,), {"n": 1}) is MISS
    for x in (other, given, other, given):
        same(f(x), double(x))
    assert len(f.guards) == 2 and len(f.entries) == 2


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_keys_are_tested_with_their_number_and_order(kind):
    f = jit(lambda x: [v * k for k, v in enumerate(x.values())], verify=False)
    keys = {"a": 1.0, "b": 2.0, "c": 3.0}
    f(dict(keys))
    (guard,) = f.guards
    assert guard((dict(keys),), {}) == [0.0, 2.0, 6.0]
    others = [*permutations(keys, 3), *permutations(keys, 2), *permutations("abd", 3), *permutations("abcd", 4), (1, "b", "c")]
    for order in others:
        given = kind((key, keys.get(key, 4.0)) for key in order)
        if order != tuple(keys) or kind is not dict:
            assert guard((given,), {}) is MISS
        if order != (1, "b", "c"):  # which cannot be sorted
            assert f(given) == [v * k for k, v in enumerate(given.values())]


@pytest.mark.parametrize("name", LONG)
def test_long_calls(name, tmp_path):
    x = LONG[name]
    if x is np.memmap:
        x = np.memmap(tmp_path / "array", float, "w+", shape=(3,))
    f = jit(double)
    for _ in range(2):
        got = f(x)
        np.testing.assert_array_equal(optree.tree_leaves(got)[0], optree.tree_leaves(double(x))[0])


def test_an_unaligned_array_is_not_given_to_machine_code():
    f = jit(lambda x: x + 1.0)
    f(X)
    assert not UNALIGNED.flags.aligned and f.guards[0]((UNALIGNED,), {}) is MISS
    np.testing.assert_array_equal(f(UNALIGNED), np.ones(6))


def test_names_and_static_arguments():
    f = jit(lambda x, n, c=1.0: x * n * c, static_argnames="n")
    for _ in range(2):
        assert f(2.0, 3) == 6.0 and f(2.0, n=2) == 4.0 and f(2.0, 3, c=2.0) == 12.0 and f(c=0.5, x=2.0, n=1) == 1.0
    assert len(f.guards) == 4
    f = jit(lambda x, n: x / n if isinstance(n, float) else x // n, static_argnums=1)
    with np.errstate(divide="ignore"):
        for _ in range(2):  # equal numbers that are not the same
            assert [f(np.float64(5.0), n) for n in (0.0, -0.0, 2, 2.0)] == [np.inf, -np.inf, 2.0, 2.5]
    f = jit(lambda x, pair: x * pair[0], static_argnums=1)
    for _ in range(2):
        assert type(f(3, (2, 1))) is int and type(f(3, (2.0, 1))) is float


def test_traced_arguments_go_the_long_way():
    f = jit(lambda x: x * x)
    assert jvp(f, (2.0,), (1.0,)) == (4.0, 4.0) and not f.guards
    f(2.0)
    assert jvp(f, (2.0,), (1.0,)) == (4.0, 4.0) and len(f.guards) == 1


def test_guards_are_few_and_come_back():
    f = jit(lambda x: np.sum(x), backend="numpy")
    for n in (*range(20), *range(20)):
        assert f(np.ones(n)) == n
    assert len(f.guards) == 16 and len(f.entries) == 20
    f.cache_clear()
    assert not f.guards and f(np.ones(3)) == 3.0


def test_byte_order_of_others_is_turned():
    x = X.astype(">f8")
    for backend in ("numpy", "llvm"):
        f = jit(lambda x: (np.sin(x), x[0]), backend=backend)
        np.testing.assert_array_equal(f(x)[0], np.sin(X))
        assert f(x)[0].dtype.isnative and len(f.entries) == 1 and f(X)[1] == 0.0 and len(f.entries) == 1


def test_the_look_does_not_write_into_mappings_with_a_default():
    mapping, grown = defaultdict(list, a=2.0, b=3.0), defaultdict(list, a=2.0, b=3.0)
    f = jit(lambda x: x * mapping["a"])

    def grows(x):  # so that the keys are not watched
        grown[len(grown)] = 0.0
        return x * grown["a"]

    g = jit(grows)
    assert f(1.0) == g(1.0) == 2.0
    del mapping["b"], grown["b"]
    mapping["c"] = 1.0
    assert f(1.0) == g(1.0) == 2.0
    assert dict(mapping) == {"a": 2.0, "c": 1.0} and "b" not in grown


def test_slots_that_are_not_set_are_watched():
    class Slotted:
        __slots__ = ("a", "b")

    slotted = Slotted()
    slotted.a = 2.0
    f = jit(lambda x: x * slotted.b if hasattr(slotted, "b") else x * slotted.a)
    assert f(1.0) == 2.0
    slotted.b = 5.0
    assert f(1.0) == 5.0
    del slotted.b
    assert f(1.0) == 2.0
    before = list(f.entries.values())
    assert f(1.0) == 2.0 and list(f.entries.values()) == before


def test_variables_that_are_not_bound_are_watched():
    def make():
        def scaled(x):
            try:
                return x * gain
            except NameError:
                return x

        f = jit(scaled)
        assert f(1.0) == 1.0
        gain = 3.0
        return f

    assert make()(1.0) == 3.0


IN_ORDER = {
    "dict": lambda d: d,
    "default dict": lambda d: defaultdict(float, d),
    "in a tuple": lambda d: (1.0, [d]),
    "in a dict": lambda d: {"only": d},
}


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("kind", IN_ORDER)
def test_the_order_of_keys_of_an_argument_is_the_callers(kind, backend):
    a, b = {"u": X, "v": X + 2.0}, {"v": X, "u": X + 2.0}

    def f(tree):
        while not isinstance(tree, dict) or len(tree) == 1:
            tree = next(iter(tree.values())) if isinstance(tree, dict) else tree[-1]
        first, second = tree.values()
        return dict.fromkeys(tree, first / (second + 1.0))

    compiled, slope = jit(f, backend=backend), jit(gradient(lambda tree: sum(f(tree).values())[1]), backend=backend)
    for d in (a, b, a, b, {"v": X, "u": X}):
        got, expected, tree = compiled(IN_ORDER[kind](d)), f(d), slope(IN_ORDER[kind](d))
        assert list(got) == list(expected)
        same(got, expected)
        (first, second), shares = d.values(), optree.tree_leaves(tree)
        shares = dict(zip(sorted(d), shares[-2:], strict=True))
        np.testing.assert_allclose([shares[name][1] for name in d], [2.0 / (second[1] + 1), -2.0 * first[1] / (second[1] + 1) ** 2])


def test_the_order_of_keywords_is_that_of_the_call_where_it_can_be_seen():
    seen = jit(lambda **options: next(iter(options.values())))
    for _ in range(2):
        assert seen(a=1.0, b=2.0) == 1.0 and seen(b=2.0, a=1.0) == 2.0
    named = jit(lambda a, b: a - b)
    assert [named(a=1.0, b=2.0), named(b=2.0, a=1.0), named(b=2.0, a=1.0)] == [-1.0] * 3 and len(named.entries) == 1


@pytest.mark.parametrize("kind", [dict, OrderedDict, Counter, partial(defaultdict, float)])
@pytest.mark.parametrize("length", [2, 200])
def test_the_order_of_mappings_is_watched(kind, length):
    mapping = kind(dict.fromkeys(range(length), 0.0), a=2.0)
    last = jit(lambda x: x * list(mapping.values())[-1])
    assert last(1.0) == 2.0
    mapping[0] = mapping.pop(0)
    assert last(1.0) == 0.0
    before = list(last.entries.values())
    mapping[float("0")] = float("0")  # equal keys stay, and equal values are the same
    assert last(1.0) == 0.0 and list(last.entries.values()) == before


@pytest.mark.parametrize("length", [1, 200])
def test_numbers_outside_are_compared_bit_by_bit(length):
    numbers = [0.0] * length
    sign = jit(lambda x: np.copysign(x, numbers[0].real) + np.copysign(x, numbers[0].imag))
    for v, expected in ((0.0, 2.0), (-0.0, 0.0), (complex(-0.0, 0.0), 0.0), (complex(-0.0, -0.0), -2.0), (0j, 2.0)):
        numbers[0] = v
        assert sign(1.0) == expected
    for v in (float("nan"), complex(float("nan"), -0.0)):
        numbers[0] = v
        sign(1.0)
        before = list(sign.entries.values())
        numbers[0] = v + 0.0 if type(v) is float else complex(v.real, -0.0)  # another object of the same bits
        sign(1.0)
        assert numbers[0] is not v and list(sign.entries.values()) == before


@pytest.mark.parametrize("mapped", [False, True])
def test_of_very_long_containers_the_length_is_watched(mapped):
    longest, longer = (dict.fromkeys(range(n), 1.0) if mapped else [1.0] * n for n in (WATCHED_LENGTH, WATCHED_LENGTH + 1))
    f, g = jit(lambda x: x * longest[3] + len(longest)), jit(lambda x: x * longer[3] + len(longer), verify=False)
    assert (f(1.0), g(1.0)) == (WATCHED_LENGTH + 1.0, WATCHED_LENGTH + 2.0)
    longest[3] = longer[3] = 2.0
    assert (f(1.0), g(1.0)) == (WATCHED_LENGTH + 2.0, WATCHED_LENGTH + 2.0), "as the documentation says"
    longer.update({-1: 0.0}) if mapped else longer.append(0.0)
    assert g(1.0) == WATCHED_LENGTH + 4.0
    longer[3] = 3.0
    g.cache_clear()
    assert g(1.0) == WATCHED_LENGTH + 5.0
    assert WATCHED_LENGTH == 5000, "which docs/pages/compiling.md and `jit` name"
