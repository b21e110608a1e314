"""Make the pictures of the documents: ``python docs/pictures.py``."""

from pathlib import Path

from checkpoint import CTZ, Mixed, Online, Periodic, Revolve, StoreAll, compare, draw

HERE = Path(__file__).parent / "pages" / "pictures"
SCHEDULES = {"ctz": CTZ(), "bisect": CTZ("bisect"), "revolve": Revolve(3), "periodic": Periodic()}


def main() -> None:
    """Write all pictures."""
    for name, schedule in SCHEDULES.items():
        (HERE / f"{name}.svg").write_text(draw(schedule, 64)._repr_svg_() + "\n")
    schedules = [StoreAll(), CTZ(), CTZ("bisect"), Revolve(20), Online(20), Periodic(), Mixed(20)]
    compare(steps=1000, state_bytes="8 MB", schedules=schedules).plot(HERE / "tradeoff.png")


if __name__ == "__main__":
    main()
