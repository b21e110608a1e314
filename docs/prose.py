"""Numpydoc sections as Markdown lists: the docstrings of this project say in a line what a type alone would not."""

import re

import griffe

SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises")
HEADING = re.compile(r"^(?P<name>[A-Z][a-z]+)\n-{3,}\n", re.MULTILINE)
NAMED = re.compile(r"^(?P<names>[*\w]+(?:, [*\w]+)*) : (?P<rest>.*)$")


class Prose(griffe.Extension):
    """Rewrites the docstring of every object."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """Return a docstring with its sections of items as lists."""
    starts = [(match.group("name"), match.start(), match.end()) for match in HEADING.finditer(text)]
    if not starts:
        return text
    parts, ends = [text[: starts[0][1]]], [*(start for _, start, _ in starts[1:]), len(text)]
    for (name, start, body), end in zip(starts, ends, strict=True):
        section = text[body:end].strip("\n")
        parts.append(f"**{name}**\n\n{listed(section, name)}\n\n" if name in SECTIONS else text[start:end])
    return "".join(parts)


def listed(section: str, name: str) -> str:
    """Return the items of a section, each with the lines that belong to it, as a list."""
    items: list[list[str]] = []
    for line in section.splitlines():
        if line.strip() and not line.startswith(" "):
            items.append([])
        if line.strip():
            items[-1].append(line.strip())
    return "\n".join("- " + spelled(lines, name) for lines in items)


def spelled(lines: list[str], section: str) -> str:
    """Return one item: its names as code, then what it is."""
    first, rest = lines[0], " ".join(lines[1:])
    named = NAMED.match(first)
    if named is not None:
        names = ", ".join(f"`{name}`" for name in named["names"].split(", "))
        return f"{names}: {joined(named['rest'], rest)}"
    if section == "Raises":
        return ", ".join(f"`{name}`" for name in first.split(", ")) + f": {rest}"
    return joined(first, rest)


def joined(first: str, rest: str) -> str:
    """Return the first line of an item, a type or the begin of a sentence, with what follows."""
    if not rest:
        return first
    return f"{first}. {rest}" if len(first) < 60 and rest[0].isupper() and first[-1] not in ".:;," else f"{first} {rest}"
