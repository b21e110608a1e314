"""Tests of each of many things, several in one item: pytest's own work for an item is more than such a test does."""

from functools import wraps
from inspect import Parameter, signature

import pytest


def for_each(arguments, things, name=None, size=10):
    """Parametrize a test by groups of things, values of its ``"a, b"``; those that fail are reported together, each by its name."""
    names, things = arguments.split(", "), list(things)
    named = [name(thing) if name else thing if isinstance(thing, str) else str(number) for number, thing in enumerate(things)]
    pairs = list(zip(named, things, strict=True))
    groups = [pairs[k : k + size] for k in range(0, len(pairs), size)]

    def decorate(test):
        @wraps(test)
        def of_group(**given):
            failed = []
            for which, thing in given.pop(names[0]):
                try:
                    test(**dict(zip(names, thing if len(names) > 1 else [thing], strict=True)), **given)
                except pytest.skip.Exception:
                    continue
                except Exception as error:
                    error.add_note(f"{arguments}: {which}")
                    failed.append(error)
            if failed:
                raise failed[0] if len(failed) == 1 else ExceptionGroup(test.__name__, failed)

        others = [p for p in signature(test).parameters.values() if p.name not in names]
        of_group.__signature__ = signature(test).replace(parameters=[Parameter(names[0], Parameter.POSITIONAL_OR_KEYWORD), *others])
        return pytest.mark.parametrize(names[0], groups, ids=[", ".join(name for name, _ in group) for group in groups])(of_group)

    return decorate
