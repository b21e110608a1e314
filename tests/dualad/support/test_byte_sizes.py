"""Bytes as people write them."""

import numpy as np
import pytest

from dualad.support.byte_sizes import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8MB", 8_000_000),
        ("2 GB", 2_000_000_000),
        ("1GiB", 2**30),
        ("1.5 KiB", 1536),
        ("8mb", 8_000_000),
        (" 12 ", 12),
        ("12B", 12),
        ("1e3 kB", 10**6),
        (".5kB", 500),
        ("1_000", 1000),
        ("9007199254740993", 2**53 + 1),
        (7, 7),
        (np.int64(7), 7),
        (0, 0),
    ],
)
def test_parse_bytes(text, count):
    assert parse_bytes(text) == count
    assert type(parse_bytes(text)) is int


@pytest.mark.parametrize("text", ["", "x", "-3", "8 XB", "MB", "1e400", "1.2.3", "8 M B"])
def test_parse_bytes_says_how_to_write_it(text):
    with pytest.raises(ValueError, match=r"parse_bytes.*8MB"):
        parse_bytes(text)


def test_parse_bytes_refuses_other_kinds():
    with pytest.raises(TypeError, match="parse_bytes: size"):
        parse_bytes(1.5)
    with pytest.raises(TypeError, match="parse_bytes: size"):
        parse_bytes(True)
    with pytest.raises(ValueError, match="parse_bytes: size must be at least 0"):
        parse_bytes(-1)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_499, "999 kB"), (999_500, "1 MB"), (8 * 10**12, "8 TB"), (10**18, "1,000 PB")],
)
def test_format_bytes(count, text):
    assert format_bytes(count) == text
