"""The documents: every public name has its place in the API, pictures are of today, names that pages mention exist."""

import importlib
import re
import sys
import types
from pathlib import Path

import pytest
from in_groups import for_each

import checkpoint
import dualad
import dualad.testing.derivatives
from checkpoint import draw

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("pages/**/*.md"))
NOT_THERE = {"rules", "sweep", "Action"}  # modules with pages of their own, and a union of what is there


def listed():
    """The names that the API pages document."""
    return {name for page in PAGES for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)}


def test_every_public_name_is_in_the_api():
    last = {name.rpartition(".")[2] for name in listed()}
    public = {*dualad.__all__, *checkpoint.__all__, *dualad.testing.__all__, *dualad.rules.__all__} - NOT_THERE - {"ROWS"}
    assert not public - last


@for_each("name", sorted(listed()), size=200)
def test_what_the_api_names_exists(name):
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_that_pages_mention_exist(page):
    for package, name in re.findall(r"`(dualad|checkpoint)\.(\w+)\b(?!\.md)", page.read_text()):
        thing = getattr({"dualad": dualad, "checkpoint": checkpoint}[package], name, None)
        assert thing is not None or isinstance(sys.modules.get(f"{package}.{name}"), types.ModuleType), f"{package}.{name}"


@pytest.mark.parametrize("name", ["ctz", "bisect", "revolve", "periodic", "architecture"])
def test_pictures_are_of_today(name, monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import pictures

    drawn = pictures.architecture() if name == "architecture" else draw(pictures.SCHEDULES[name], 64)._repr_svg_() + "\n"
    assert (DOCS / "pages" / "pictures" / f"{name}.svg").read_text() == drawn


def test_the_rooms_that_the_map_names_are_the_folders():
    house = (DOCS.parent / "dualad" / "README.md").read_text()
    for package, table in zip(["dualad", "checkpoint"], house.split("## A row")[0].split("| room |")[1:], strict=True):
        folders = {path.parent.name for path in (DOCS.parent / package).glob("*/__init__.py")}
        assert set(re.findall(r"^\| `(\w+)/` \|", table, re.MULTILINE)) == folders


def test_the_files_that_the_architecture_names_exist():
    page = (DOCS / "pages" / "architecture.md").read_text()
    named = re.findall(r"`((?:dualad|checkpoint)/[\w/]+(?:\.py|/))`", page)
    assert len(named) > 20
    assert not [name for name in named if not (DOCS.parent / name).exists()]


def test_the_version_to_cite_is_that_of_the_package():
    assert f"version: {dualad.__version__}\n" in (DOCS / "CITATION.cff").read_text()


def test_every_example_is_in_the_site():
    page = (DOCS / "pages" / "examples.md").read_text()
    assert set(re.findall(r'--8<-- "examples/(\w+)\.py"', page)) == {path.stem for path in (DOCS.parent / "examples").glob("*.py")}


def test_readme_is_a_page():
    assert len((DOCS.parent / "README.md").read_text().split()) <= 1300
