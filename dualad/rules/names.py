"""NumPy as the rooms of the table see it: a name that this version of NumPy does not have is `Absent`, and gets no row.

So the line of a row is the same for all versions, and what a version adds or drops never breaks the import.
"""

from __future__ import annotations

from types import ModuleType

import numpy

#: public names of the functions that have a line in the table, and that this version of NumPy does not have
ABSENT: set[str] = set()


class Absent:
    """Stands for a function that this version of NumPy does not have."""

    def __init__(self, module, name):
        self.__module__, self.__name__ = module, name

    def __call__(self, *args, **kwargs):
        raise AttributeError(f"{self.__module__} {numpy.__version__} has no {self.__name__}")


def lenient(module: ModuleType) -> ModuleType:
    """Return a copy of a module's names in which those that are not there are `Absent`."""
    names = ModuleType(module.__name__, module.__doc__)

    def missing(name):
        value = getattr(module, name, None)  # what NumPy imports when it is first asked for
        value = Absent(module.__name__, name) if value is None else lenient(value) if isinstance(value, ModuleType) else value
        setattr(names, name, value)
        return value

    vars(names).update({name: value for name, value in vars(module).items() if not isinstance(value, ModuleType) and name[:2] != "__"})
    vars(names)["__getattr__"] = missing
    return names


np = lenient(numpy)
