"""Numbers as people write them: ``8MB``, ``1 GiB``, ``1e6`` steps."""

from dualad.support.byte_sizes import format_bytes, parse_bytes

__all__ = ["format_bytes", "parse_bytes", "parse_count"]


def parse_count(text: str) -> int:
    """Return a whole number written as ``1000``, ``1_000`` or ``1e3``; anything else raises ValueError."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
        if value != int(value):
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"parse_count: {text!r} is not a whole number; write 1000, 1_000 or 1e3") from None
    return int(value)
