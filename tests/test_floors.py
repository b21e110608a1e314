"""The house: a room imports only from lower floors, dualad never imports checkpoint, and no room grows too large."""

import ast
from functools import cache
from pathlib import Path

import pytest
from loaded import statements

ROOT = Path(__file__).parents[1]

#: rooms from the ground up; a room imports from floors below its own. A package (`rules`) is one room: what is in it has an
#: order of its own, without circles.
FLOORS = {
    "dualad": ["support", "ir", "rules", "core", "dask", "forward", "graph", "loops", "codegen", "jit", "sparse", "verbs", "scipy", "adapt",
               "testing", "__init__", "__main__"],
    "checkpoint": ["support", "schedules", "storage", "sweep", "durable", "reverse", "loops", "ode", "report", "__init__", "__main__"],
}  # fmt: skip

#: rooms that know no derivative engine: anybody's steps can be swept
ENGINE_FREE = ["support", "schedules", "storage", "sweep"]

#: imports inside of a function, of what is built on top: a storage is told that it is durable, and hands that on unread
HANDED_ON = {("checkpoint.storage.disk", "checkpoint.durable.journal")}

MOST_LINES = 500
#: longer rooms, with the reason
LONG: dict[str, str] = {}  # file: why it may be longer

FILES = sorted(path for package in FLOORS for path in (ROOT / package).rglob("*.py"))


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts)


def imported(path):
    """The modules of the two packages that a file imports, also inside functions."""
    name = module_name(path)
    for node in statements(path.read_text()):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".")[: -node.level] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            names = [
                f"{base}.{alias.name}"
                if (ROOT / base.replace(".", "/") / f"{alias.name}.py").exists() or (ROOT / base.replace(".", "/") / alias.name).is_dir()
                else base
                for alias in node.names
            ]
        else:
            continue
        yield from (n for n in names if n.split(".")[0] in FLOORS and ((name, n) not in HANDED_ON or not node.col_offset))


@cache
def imports():
    """The modules that each file imports; not found out where the tests are only collected."""
    return {module_name(path): set(imported(path)) for path in FILES}


def room(name):
    """The package and the room of a module: ``dualad.rules.kinds`` is in the room ``rules``."""
    package, first, *_ = [*name.split("."), "__init__"]
    return package, first


def floor(name):
    package, first = room(name)
    if first not in FLOORS[package]:
        pytest.fail(f"{name} stands on no floor: enter it in FLOORS")
    return FLOORS[package].index(first)


def test_imports_come_from_lower_floors():
    for name, others in imports().items():
        for other in others:
            if room(other) == room(name):
                continue
            assert not (room(name)[0] == "dualad" and room(other)[0] == "checkpoint"), (
                f"{name} imports {other}: dualad never imports checkpoint"
            )
            assert room(other)[0] != room(name)[0] or floor(other) < floor(name), f"{name} imports {other}, which is not below it"


def test_there_are_no_circles():
    graph = {name.removesuffix(".__init__"): others for name, others in imports().items()}
    done, path = set(), []

    def visit(name):
        assert name not in path, f"circle: {' -> '.join([*path[path.index(name) :], name])}"
        if name in done or name not in graph:
            return
        path.append(name)
        for other in graph[name]:
            if other != name and not name.startswith(f"{other}."):  # a module may name its own package
                visit(other)
        path.pop()
        done.add(name)

    for name in graph:
        visit(name)


def test_the_sweep_knows_no_engine():
    for name, others in imports().items():
        if room(name) in {("checkpoint", first) for first in ENGINE_FREE}:
            assert not [other for other in others if other.startswith("dualad") and not other.startswith("dualad.support")], name


def test_every_floor_is_inhabited():
    rooms = {room(module_name(path)) for path in FILES}
    assert not {(package, first) for package in FLOORS for first in FLOORS[package]} - rooms


def test_no_room_is_too_large():
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES}
    assert not {name: n for name, n in lines.items() if n > MOST_LINES and name not in LONG}
    assert not [name for name in LONG if lines.get(name, 0) <= MOST_LINES], "no longer long: strike it from LONG"


def test_no_file_of_tests_is_too_large():
    lines = {path.relative_to(ROOT / "tests").as_posix(): len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py")}
    assert not {name: n for name, n in lines.items() if n > MOST_LINES}


def test_package_files_only_re_export():
    for path in FILES:
        if path.name == "__init__.py":
            body = [node for node in ast.parse(path.read_text()).body if ast.unparse(node).split(":")[0] != "if TYPE_CHECKING"]
            kinds = {type(node) for node in body} - {ast.Import, ast.ImportFrom, ast.Assign, ast.Expr, ast.Delete}
            assert not kinds, f"{path}: {kinds}"
