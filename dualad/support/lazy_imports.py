"""Packages whose rooms are imported when a name of theirs is first asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package that imports its rooms when one of their public names is asked for; errors say in which module a name is instead.

    ``from package import name`` would put words of its own in place of those of an AttributeError: it is raised an ImportError.
    """

    def __getattr__(self, name: str) -> Any:
        room = vars(self)["__rooms__"].get(name, name)
        if name.startswith("_") or find_spec(f"{self.__name__}.{room}") is None:
            home = next((module for module, names in vars(self)["__elsewhere__"].items() if name in names), None)
            hint = f"it is in {home}: from {home} import {name}"
            if home is not None and sys._getframe(1).f_code.co_name == "_handle_fromlist":
                raise ImportError(f"cannot import name {name!r} from {self.__name__!r}: {hint}", name=self.__name__)
            text = f"module {self.__name__!r} has no attribute {name!r}"
            raise AttributeError(text if home is None else f"{text}; {hint}", name=name, obj=self)
        module = import_module(f"{self.__name__}.{room}")
        setattr(self, name, module if name == room and name not in module.__all__ else getattr(module, name))
        return vars(self)[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in vars(self)["__rooms__"] and name in value.__all__:
            value = getattr(value, name)  # a room of the name of what it is for: the import system shall not put the room here
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *vars(self)["__rooms__"]})


def lazily(package: str, rooms: dict[str, str], elsewhere: dict[str, str]) -> None:
    """Give a package names by room, ``{"room": "name other"}``, that are imported when they are first asked for.

    What is `elsewhere`, by module, is not imported: errors point to it.
    """
    module = sys.modules[package]
    vars(module)["__elsewhere__"] = {home: frozenset(names.split()) for home, names in elsewhere.items()}
    vars(module)["__rooms__"] = {name: room for room, names in rooms.items() for name in names.split()}
    module.__class__ = LazyPackage
