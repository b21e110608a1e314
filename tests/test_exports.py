"""What the packages export is exactly what they say."""

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
import types
from pathlib import Path

import pytest
from other_processes import output_of

import checkpoint
import dualad

pytestmark = pytest.mark.slow

PACKAGES = [dualad, checkpoint]
ROOT = Path(__file__).parents[1]


def public(package):
    """The public names of a package that are no submodules."""
    return {
        name
        for name, thing in vars(package).items()
        if not name.startswith("_")
        and name != "TYPE_CHECKING"
        and not (isinstance(thing, types.ModuleType) and thing.__name__ == f"{package.__name__}.{name}")
    }


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_all_is_what_is_public(package):
    modules = {name for name in package.__all__ if isinstance(getattr(package, name), types.ModuleType)}
    assert set(package.__all__) - modules == public(package)
    assert len(set(package.__all__)) == len(package.__all__)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_lazy_names_are_those_that_type_checkers_read(package):
    (block,) = (node for node in ast.parse(inspect.getsource(package)).body if isinstance(node, ast.If))
    read = {name.name: node.module or name.name for node in block.body for name in node.names}
    assert vars(package)["__rooms__"] == read
    for name in read:
        thing = getattr(package, name)
        assert isinstance(thing, types.ModuleType) == (f"{package.__name__}.{name}" == getattr(thing, "__name__", None)), name
    assert set(package.__all__) <= set(dir(package))
    name = "schedules" if package is checkpoint else "forward"
    assert getattr(package, name) is importlib.import_module(f"{package.__name__}.{name}"), "rooms, too"
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'absent'"):
        package.absent


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_errors_say_where_a_name_is(package):
    for home, names in vars(package)["__elsewhere__"].items():
        module = importlib.import_module(home)
        assert names - set(package.__all__) == set(module.__all__) - set(package.__all__), "all of them, and no others"
        rooms = {room.name for room in pkgutil.iter_modules(package.__path__)}
        assert not rooms & names - set(package.__all__), "a room must not hide what its name says"
        for name in names - set(package.__all__):
            hint = re.escape(f"it is in {home}: from {home} import {name}")
            assert not hasattr(package, name)
            with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute '{name}'; {hint}$"):
                getattr(package, name)
            with pytest.raises(ImportError, match=f"cannot import name '{name}' from '{package.__name__}': {hint}$"):
                exec(f"from {package.__name__} import {name}")
            exec(f"from {home} import {name}")
    with pytest.raises(ImportError, match="cannot import name 'absent'"):
        exec(f"from {package.__name__} import absent")


#: what an import brings with it; the rest is imported when a name of it is asked for
FEW = 80
#: what no eager derivative needs, and nobody pays for who only imports
HEAVY = {
    "scipy", "numba", "llvmlite", "concurrent.futures", "hashlib", "json", "pathlib", "logging", "sysconfig", "numpy.typing", "inspect",
}  # fmt: skip
ROOMS_AT_IMPORT = {
    "dualad": {"core", "dask", "forward", "rules", "support", "verbs"},  # of dask/: whether a value is such an array
    "checkpoint": {"reverse"},
}


def test_an_import_brings_few_modules():
    code = "import numpy, optree, sys; before = set(sys.modules); import checkpoint; print(*sorted(set(sys.modules) - before))"
    brought = output_of(code).split()
    assert len(brought) <= FEW, brought
    assert not HEAVY & set(brought)
    for package, rooms in ROOMS_AT_IMPORT.items():
        assert {name.split(".")[1] for name in brought if name.startswith(f"{package}.")} == rooms


def test_a_room_does_not_hide_what_it_is_named_after():
    code = "import checkpoint.loops.chain, dualad.verbs.hessian; print(checkpoint.chain, checkpoint.draw, dualad.hessian)"
    printed = output_of(code)
    assert [word.split()[0] for word in printed.split("<function ")[1:]] == ["chain", "draw", "hessian"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_export_has_a_docstring(package):
    assert not [name for name in package.__all__ if not (getattr(package, name).__doc__ or "").strip()]


def modules():
    """The names of all modules of both packages."""
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield found.name


def test_every_name_in_a_modules_all_exists():
    for name in modules():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] in {package.__name__ for package in PACKAGES}:
                raise
            continue  # an extra is not installed
        assert not [entry for entry in getattr(module, "__all__", ()) if not hasattr(module, entry)], name
        assert (module.__doc__ or "").strip(), f"{name}: say in one sentence what the room is for"


def test_star_imports_give_all():
    for package in PACKAGES:
        space = {}
        exec(f"from {package.__name__} import *", space)
        assert {name for name in space if not name.startswith("__")} == set(package.__all__)


def test_metadata_say_where_the_project_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["urls"] and all(url.startswith(f"https://pypi.org/project/{project['name']}/") for url in project["urls"].values())


def test_there_is_one_version():
    assert dualad.__version__ == checkpoint.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", dualad.__version__)


def test_functions_and_classes_have_no_underscore():
    found = []
    for package in PACKAGES:
        for path in Path(package.__file__).parent.rglob("*.py"):
            body = ast.parse(path.read_text()).body
            names = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
            found += [f"{path}: {name}" for name in names if name[0] == "_" != name[1]]
    assert found == []
