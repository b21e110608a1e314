"""Thresholds have one home in each package, with their reasons; the benchmark that measures them knows them."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOMES = [ROOT / "dualad" / "support" / "costs.py", ROOT / "checkpoint" / "support" / "costs.py"]
FILES = sorted(path for package in ("dualad", "checkpoint") for path in (ROOT / package).rglob("*.py") if path not in HOMES)

#: numbers that decide something and are no thresholds: what they are
EXCEPTIONS = {
    ("dualad/codegen/body.py", "LONG_LINE"): "how wide the shown source is",
    ("dualad/codegen/kernels.py", "LARGEST_ANGLE"): "where an approximation's range ends",
    ("dualad/codegen/kernels.py", "ROUND"): "of the floats",
    ("dualad/codegen/cache.py", "ABANDONED_SECONDS"): "how long writing a file may take",
    ("dualad/rules/linalg.py", "ASKED_PRODUCTS"): "what is not evaluated to be compared",
    ("dualad/rules/linalg.py", "JUDGED_ORDER"): "where a criterion's range ends",
    ("dualad/rules/special_parts.py", "SHIFT"): "where an approximation's range begins",
    ("checkpoint/durable/identity.py", "MOST_VALUES"): "a limit, for functions that read a world of objects",
    ("checkpoint/ode/methods.py", "NEWTON_STEPS"): "after which a step is refused",
    ("checkpoint/ode/methods.py", "ROUNDINGS"): "of the floats",
    ("checkpoint/report/compare.py", "COMPARED_STEPS"): "a refusal: every action is counted",
    ("checkpoint/report/draw.py", "DRAWN_STEPS"): "a refusal: the width of a terminal",
    ("checkpoint/report/draw.py", "COUNTED_STEPS"): "how fine a drawn curve is",
    ("checkpoint/report/draw.py", "PLOTTED_STEPS"): "a refusal: the width of a picture",
    ("checkpoint/report/draw.py", "TOLD_APART"): "how fine a picture is",
    ("checkpoint/storage/codec.py", "FORMAT"): "the format's version",
    ("checkpoint/storage/memory.py", "INTEGERS"): "the format's integers",
    ("dualad/codegen/trusted.py", "MOST_LINKS"): "the platform's limit (ELOOP)",
    ("checkpoint/ode/steps.py", "MIN_FACTOR"): "SciPy's, whose steps are to be found",
    ("checkpoint/storage/digests.py", "PART"): "part of the format: another one gives other digests",
    ("checkpoint/storage/codec.py", "PART"): "part of the format: another one gives other sums",
}


def numbers(node: ast.stmt):
    """Yield the names that a statement gives a number of at least 2, or a part of 1, with the number."""
    if isinstance(node, ast.AnnAssign):
        pairs = [(node.target, node.value)]
    elif isinstance(node, ast.Assign):
        pairs = [(target, node.value) for target in node.targets]
    else:
        return
    for target, value in pairs:
        several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        for name, number in zip(target.elts, value.elts, strict=True) if several else [(target, value)]:
            if isinstance(name, ast.Name) and name.id.isupper() and number is not None and (found := plain(number)) is not None:
                yield name.id, found


def plain(node: ast.expr) -> float | None:
    """Return what an expression of plain numbers gives, None for any other."""
    if any(not isinstance(part, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop) for part in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "a constant", "eval"))
    return value if type(value) in (int, float) else None


def thresholds(source: str) -> set[str]:
    """Return the module's own numbers that decide: they are compared, or bound by min, max, a slice or range."""
    tree = ast.parse(source)
    named = {name for node in tree.body for name, value in numbers(node) if value >= 2 or 0 < value < 1}
    deciding = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.Slice) or is_bound(node)]
    return {part.id for node in deciding for part in ast.walk(node) if isinstance(part, ast.Name) and part.id in named}


def is_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "range")


@pytest.mark.slow
def test_thresholds_have_one_home():
    found = {(path.relative_to(ROOT).as_posix(), name) for path in FILES for name in thresholds(path.read_text())}
    assert not found - EXCEPTIONS.keys(), "say it in support/costs.py, with what it buys"
    assert not EXCEPTIONS.keys() - found, "strike it from EXCEPTIONS"


DECIDING = [
    "MOST = 3\nif n > MOST: pass",
    "MOST: int = 1 << 20\ndef f(n):\n    return n <= MOST",
    "A, MOST = 1, 5e6\nx = min(n, MOST // n)",
    "MOST = 0.05\nassert a < MOST * b",
    "MOST = 16\nkept = [one, *kept[: MOST - 1]]",
]
OTHERS = ["NAME = 'a'\nx == NAME", "SIGN = -1\nx < SIGN", "WIDTH = 640\nx = WIDTH / 2", "from a import MOST\nx < MOST"]


@pytest.mark.parametrize("source", [*DECIDING, *OTHERS])
def test_what_decides_is_found(source):
    assert thresholds(source) == ({"MOST"} if source in DECIDING else set())


@pytest.mark.parametrize("home", HOMES, ids=lambda path: path.parts[-3])
def test_the_homes_import_nothing_and_give_reasons(home):
    """A constant stands behind a comment, in the same block as the others that the comment is about."""
    text = home.read_text()
    assert not [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    blocks = re.split(r"\n(?=#: )|\n\n", text)
    bare = [block for block in blocks if re.search(r"^[A-Z_]+ = ", block, re.M) and not block.startswith("#: ")]
    assert not bare


def test_names_are_unique_and_read():
    names = [name for home in HOMES for name in re.findall(r"^([A-Z_]+) = ", home.read_text(), re.M)]
    assert len({*names}) == len(names), "equal names with other values"
    words = lambda paths: [word for path in paths for word in re.findall(r"\b[A-Z_]+\b", path.read_text())]
    read, derived = {*words(FILES)}, words(HOMES)
    assert not [name for name in names if name not in read and derived.count(name) == 1]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import costs

    return costs


def test_what_is_measured_exists_and_is_asked_on_both_sides(benchmark):
    known = benchmark.thresholds()
    assert len(benchmark.MEASURES) >= 10
    for name, measure in benchmark.MEASURES.items():
        assert known[name] in measure.values and len(measure.values) > 1, name
        assert measure.programs and {*measure.programs} <= benchmark.PROGRAMS.keys(), name


def test_a_threshold_moves_where_it_is_read(benchmark):
    from dualad.loops import sums

    before = sums.LIBRARY_PRODUCTS
    with benchmark.moved("LIBRARY_PRODUCTS", 7):
        assert sums.LIBRARY_PRODUCTS == benchmark.thresholds()["LIBRARY_PRODUCTS"] == 7
    assert sums.LIBRARY_PRODUCTS == benchmark.thresholds()["LIBRARY_PRODUCTS"] == before


@pytest.mark.slow
def test_the_benchmark_lists_and_measures():
    command = [sys.executable, "-m", "benchmarks.costs"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout
    assert all(f"| {name} " in listed for name in ("CHUNK_BYTES", "PACKED_BYTES"))
    shown = subprocess.run([*command, "--quick", "CHUNK_BYTES"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout
    assert shown.count("Burgers") == 2 and "as it is" in shown
