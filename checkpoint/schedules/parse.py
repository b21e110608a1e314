"""Schedules by name, for the command line."""

from .ctz import CTZ
from .mixed import Mixed
from .online import Online
from .periodic import Periodic, StoreAll
from .revolve import Revolve
from .schedule import Schedule
from .tiered import Tiered

FORMS = "ctz, ctz:bisect, ctz:binomial, revolve:SLOTS, online:SLOTS, periodic, periodic:EVERY, tiered:MEMORY+DISK, mixed:SLOTS, store_all"


def parse(text: str) -> Schedule:
    """Read a schedule written as a name, with its argument behind a colon.

    Parameters
    ----------
    text : ``ctz``, ``ctz:bisect``, ``ctz:binomial``, ``revolve:SLOTS``, ``online:SLOTS``, ``periodic``, ``periodic:EVERY``,
        ``tiered:MEMORY+DISK`` (slots), ``mixed:SLOTS`` or ``store_all``.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        If there is no such schedule, or its argument is wrong.

    Examples
    --------
    >>> parse("ctz:bisect"), parse("revolve:3"), parse("online:3"), parse("store_all")
    (CTZ(refill='bisect'), Revolve(slots=3), Online(slots=3), StoreAll())
    """
    name, colon, argument = text.strip().partition(":")
    match name:
        case "ctz":
            return CTZ(argument) if colon else CTZ()
        case "revolve" | "online" | "mixed" if argument.isdecimal():
            return {"revolve": Revolve, "online": Online, "mixed": Mixed}[name](int(argument))
        case "periodic" if argument.isdecimal() or not colon:
            return Periodic(every=int(argument)) if colon else Periodic()
        case "tiered" if len(slots := argument.split("+")) == 2 and all(map(str.isdecimal, slots)):
            return Tiered(*map(int, slots))
        case "store_all" if not colon:
            return StoreAll()
    raise ValueError(f"parse: no schedule is written {text!r}; write one of {FORMS}")
