"""What the packages export is exactly what they say."""

from __future__ import annotations

import importlib
import pkgutil
import re
import types

import pytest

import checkpoint
import dualad

PACKAGES = [dualad, checkpoint]


def public(package):
    """The public names of a package that are no submodules."""
    return {
        name
        for name, thing in vars(package).items()
        if not name.startswith("_") and not (isinstance(thing, types.ModuleType) and thing.__name__ == f"{package.__name__}.{name}")
    }


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_all_is_what_is_public(package):
    modules = {name for name in package.__all__ if isinstance(getattr(package, name), types.ModuleType)}
    assert set(package.__all__) - modules == public(package)
    assert len(set(package.__all__)) == len(package.__all__)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_export_has_a_docstring(package):
    assert not [name for name in package.__all__ if not (getattr(package, name).__doc__ or "").strip()]


def modules():
    """The names of all modules of both packages."""
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield found.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_every_name_in_a_modules_all_exists(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in {package.__name__ for package in PACKAGES}:
            raise
        pytest.skip(f"an extra is not installed: {error}")
    assert not [entry for entry in getattr(module, "__all__", ()) if not hasattr(module, entry)]
    assert (module.__doc__ or "").strip(), "say in one sentence what the room is for"


def test_star_imports_give_all():
    for package in PACKAGES:
        space = {}
        exec(f"from {package.__name__} import *", space)
        assert {name for name in space if not name.startswith("__")} == set(package.__all__)


def test_there_is_one_version():
    assert dualad.__version__ == checkpoint.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", dualad.__version__)
