"""Make the pictures of the documents: ``python docs/pictures.py``."""

import ast
from functools import cache
from pathlib import Path

from checkpoint import CTZ, Mixed, Online, Periodic, Revolve, StoreAll, compare, draw

HERE = Path(__file__).parent / "pages" / "pictures"
SCHEDULES = {"ctz": CTZ(), "bisect": CTZ("bisect"), "revolve": Revolve(3), "periodic": Periodic()}

ROOT = Path(__file__).parents[1]
PACKAGES = {"checkpoint": (170, "#E69F00"), "dualad": (490, "#0072B2")}  # middle of the column, colour
ASIDE = {"durable": -60, "reverse": 60}  # so that no line runs behind a box
WIDTH, STOREY, WIDE, HIGH = 640, 46, 104, 26
HANDED_ON = ("checkpoint", "storage"), ("checkpoint", "durable")  # what tests/test_floors.py lets a function import from above

Room = tuple[str, ...]  # package and folder


def rooms() -> dict[Room, set[Room]]:
    """Return which rooms each room imports from; what is loose beside them (`__init__`, `__main__`) is none."""
    found: dict[Room, set[Room]] = {}
    for path in sorted(file for package in PACKAGES for file in (ROOT / package).glob("*/**/*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        room = found.setdefault(parts[:2], set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                base = parts[: -node.level] if node.level else ()
                other = (*base, *(node.module or "").split("."))[:2]
                room |= {other} - {parts[:2]}
    return {room: {other for other in others if other in found and (room, other) != HANDED_ON} for room, others in found.items()}


def architecture() -> str:
    """Return the rooms as SVG: each above all that it imports from. A line that others imply is left out."""
    above = rooms()

    @cache
    def below(room: Room) -> frozenset[Room]:
        return frozenset(above[room]).union(*map(below, above[room]))

    @cache
    def floor(room: Room) -> int:
        return 1 + max(map(floor, above[room]), default=-1)

    height = STOREY * (1 + max(map(floor, above))) + 30
    places, boxes, lines = {}, [], []
    for room in above:
        middle, colour = PACKAGES[room[0]]
        beside = [other for other in above if other[0] == room[0] and floor(other) == floor(room)]
        x = middle + ASIDE.get(room[1], 0) + (beside.index(room) - (len(beside) - 1) / 2) * (WIDE + 16)
        y = height - STOREY * floor(room) - STOREY // 2
        places[room] = x, y
        style = f'fill="{colour}" fill-opacity="0.15" stroke="{colour}"'
        boxes.append(f'<rect x="{x - WIDE / 2:g}" y="{y - HIGH / 2:g}" width="{WIDE}" height="{HIGH}" rx="4" {style}/>')
        boxes.append(f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle">{room[1]}/</text>')
    for room, others in above.items():
        for other in sorted(others):
            if not any(other in below(third) for third in others):
                (x0, y0), (x1, y1) = places[room], places[other]
                lines.append(f'<line x1="{x0:g}" y1="{y0 + HIGH / 2:g}" x2="{x1:g}" y2="{y1 - HIGH / 2:g}" stroke="#8a8a8a"/>')
    names = [f'<text x="{x}" y="18" text-anchor="middle" font-weight="bold">{name}</text>' for name, (x, _) in PACKAGES.items()]
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *lines, *boxes, *names, "</svg>\n"])


def main() -> None:
    """Write all pictures."""
    for name, schedule in SCHEDULES.items():
        (HERE / f"{name}.svg").write_text(draw(schedule, 64)._repr_svg_() + "\n")
    (HERE / "architecture.svg").write_text(architecture())
    schedules = [StoreAll(), CTZ(), CTZ("bisect"), Revolve(20), Online(20), Periodic(), Mixed(20)]
    compare(steps=1000, state_bytes="8 MB", schedules=schedules).plot(HERE / "tradeoff.png")


if __name__ == "__main__":
    main()
