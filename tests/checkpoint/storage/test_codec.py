"""One state, one file: what goes in comes out, and no altered byte passes."""

import errno
import json
import math
import os
import pickle
import re
import struct
from zlib import crc32

import numpy as np
import pytest
from comparing import same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoint.storage import DamagedState, codec
from checkpoint.storage.codec import FORMAT, check_leaves, check_of, encode_records, read_leaves, read_records, write_leaves
from checkpoint.storage.files import write_file
from checkpoint.storage.memory import Pattern, Record

RECORD = np.dtype([("a", "<f4"), ("b", "<i8", (2,))])
LEAVES = [np.arange(6.0).reshape(2, 3), np.array(2.5), np.zeros((0, 3), np.float32), np.array([1 + 2j]), np.array([True, False])]
LEAVES += [np.array(["a", "bcd"]), np.array(["2024-01-01"], "datetime64[D]"), np.zeros(3, RECORD), np.arange(3, dtype=">i4")]
LEAVES += [np.float64(0.1), np.float32(0.1), np.int8(-3), np.bool_(True), np.datetime64("2024-01-01"), 0.1, -0.0, math.inf, math.nan]
LEAVES += [np.array([math.nan]), complex(math.nan, 1), 7, -(10**30), True, None, "text \ud800 é", b"\x00\xff", 1.5 - 0.0j]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "0.state"


def test_leaves_come_back_as_they_were(path):
    check_leaves(LEAVES)
    write_leaves(path, 3, [*LEAVES, 10**5000])
    *back, large = read_leaves(path, 3)
    same(back, LEAVES)
    assert type(large) is int and large == 10**5000  # which has no repr
    assert all(leaf.flags.carray for leaf in back if type(leaf) is np.ndarray)


def test_any_layout_is_written(path):
    x = np.arange(24.0).reshape(4, 6)
    layouts = [x.T, x[::2, ::-1], np.asfortranarray(x), np.broadcast_to(1.0, (3, 2))]
    write_leaves(path, 0, layouts)
    assert all(np.array_equal(a, b) for a, b in zip(layouts, read_leaves(path, 0), strict=True))


@pytest.mark.parametrize("leaf", [{1}, object(), np.array([None]), np.ma.zeros(3), range(3), float])
def test_other_leaves_are_refused(leaf):
    with pytest.raises(TypeError, match=r"Disk: a state has .* which is not written to disk; use arrays"):
        check_leaves([1.0, leaf])


SMALL = [np.arange(3.0), 1.5, "text", np.float32(2)]


@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_any_altered_byte_is_found(path, place, flip):
    write_leaves(path, 0, SMALL)
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= flip
    path.write_bytes(data)
    with pytest.raises(DamagedState, match=r"state 0 cannot be read back from .*0\.state: "):
        read_leaves(path, 0)


LARGE = np.random.default_rng(0).integers(0, 256, (5 << 19) + 3, np.uint8)


@given(place=st.integers(0, len(LARGE) - 1), flip=st.integers(1, 255))
@settings(max_examples=50)
def test_any_altered_byte_of_large_data_is_found(place, flip):
    data = LARGE.copy()
    data[place] ^= flip
    assert check_of(data.data) != check_of(LARGE.data)


@given(first=st.integers(0, 600), second=st.integers(0, 600), size=st.sampled_from([8, 512, 4096]))
@settings(max_examples=50)
def test_sectors_of_large_data_that_are_lost_or_in_other_places_are_found(first, second, size):
    here, there = (slice(k * size, (k + 1) * size) for k in (first, second))
    lost, moved = LARGE.copy(), LARGE.copy()
    lost[here] = 0
    moved[here], moved[there] = LARGE[there], LARGE[here]
    assert check_of(lost.data) != check_of(LARGE.data)
    assert (check_of(moved.data) == check_of(LARGE.data)) == (first == second)


def test_any_cut_is_found(path):
    write_leaves(path, 0, SMALL)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(DamagedState, match=r"0\.state"):
            read_leaves(path, 0)
    path.write_bytes(data + b"x")
    with pytest.raises(DamagedState, match="bytes after its end"):
        read_leaves(path, 0)


def test_another_state_and_no_file(path):
    write_leaves(path, 4, SMALL)
    with pytest.raises(DamagedState, match="it holds state 4"):
        read_leaves(path, 0)
    path.unlink()
    with pytest.raises(DamagedState, match="No such file"):
        read_leaves(path, 4)


def plant(path, leaf, block=b"", **more):
    """A file that is consistent in itself, as somebody with bad intentions would write it."""
    data = struct.pack("<q", 0) + block
    content = {"label": "", "rows": 1, "leaves": [leaf], "bytes": len(data), "check": check_of(memoryview(block), crc32(data[:8]))} | more
    header = json.dumps(content).encode()
    path.write_bytes(struct.pack("<4sHII", b"CKPT", FORMAT, len(header), crc32(header)) + header + data)


RUN = []


class Bomb:
    def __reduce__(self):
        return RUN.append, ("run",)


BLOCK = np.zeros(3).tobytes()
PLANTED = {
    "an object array": (["array", "'|O'", [1]], pickle.dumps(Bomb())[:8], {}),
    "an expression in the dtype": (["array", "RUN.append('run')", [1]], BLOCK, {}),
    "an expression in the shape": (["array", "'<f8'", ["RUN.append('run')"]], BLOCK, {}),
    "a huge array": (["array", "'<f8'", [999999999]], BLOCK, {"bytes": 8 + 8 * 999999999}),
    "a negative shape": (["array", "'<f8'", [-3]], BLOCK, {}),
    "another shape": (["array", "'<f8'", [2]], BLOCK, {}),
    "a pickle": (["pickle", pickle.dumps(Bomb()).hex()], b"", {}),
    "an unknown kind": (["eval", "RUN.append('run')"], b"", {}),
    "another constant": (["constant", 1, "str"], b"", {}),
    "no hexadecimal": (["constant", "zz", "int"], b"", {}),
    "no dtype": (["array", None, [3]], BLOCK, {}),
    "no kind": (None, b"", {}),
    "many rows": (["float"], BLOCK[:8], {"rows": 10**15, "bytes": 16 * 10**15}),
    "less than no row": (["float"], BLOCK[:8], {"rows": -1, "bytes": -16}),
    "rows in words": (["float"], BLOCK[:8], {"rows": "one"}),
    "more in the header": (["float"], BLOCK[:8], {"eval": "RUN.append('run')"}),
}


SAID = {
    "another shape": "its data do not match its header",
    "a negative shape": "a leaf of kind .* is unknown",
    "an expression in the shape": "a leaf of kind .* is unknown",
    "an object array": "a leaf of kind .* is unknown",
    "rows in words": "its header is not that of a state",
    "more in the header": "its header is not that of a state",
}


def test_rows_of_several_states_come_back_each_with_memory_of_its_own(tmp_path):
    """Each is summed, not the first alone; what is read of a batch does not keep it in memory, a single state is not copied."""
    path, rows = tmp_path / "1.batch", {3: [np.arange(3.0), 7], 5: [np.ones(3), 8], 9: [np.zeros(3), -1]}
    pattern = Pattern(check_leaves(rows[3]))
    buffer = bytearray(3 * pattern.size)
    for i, leaves in enumerate(rows.values()):
        pattern.pack(leaves, buffer, i * pattern.size)
    for indices in (list(rows), [3]):
        write_file(path, encode_records([Record(pattern, None, indices, buffer[: len(indices) * pattern.size])]), "rows")
        (back,) = read_records(path, "", "rows", indices)
        assert list(back) == indices
        for index, leaves in back.items():
            same(leaves, rows[index])
            assert leaves[0].flags.owndata == (len(indices) > 1)
        data = path.read_bytes()
        path.write_bytes(data[:-1] + b"x")
        with pytest.raises(DamagedState, match="its data have been altered"):
            read_records(path, "", "rows", indices)


def test_a_file_for_which_there_is_no_memory_is_not_damaged(path, monkeypatch):
    def failing(*given):
        raise MemoryError

    write_leaves(path, 0, SMALL)
    monkeypatch.setattr(codec, "read_record", failing)
    with pytest.raises(MemoryError):
        read_leaves(path, 0)


def test_large_leaves_are_summed_each_by_itself(path):
    leaves = [LARGE[: (3 << 19) + 1].copy(), LARGE[1 << 20 :].copy(), np.arange(5.0)]
    write_leaves(path, 0, leaves)
    same(read_leaves(path, 0), leaves)


@pytest.mark.parametrize(("length", "check"), [(0, 0), (1000, 1914128038), (1 << 20, 578771206), (5 << 19, 3864562715)])
def test_the_checksum_is_that_of_the_format(length, check):
    """Files are read by later versions: another checksum is another format."""
    assert check_of(np.tile(np.arange(251, dtype=np.uint8), 10500)[:length].data) == check


def test_what_is_planted_is_read_if_it_is_right(path):
    plant(path, ["array", "'<f8'", [3]], BLOCK)
    assert read_leaves(path, 0)[0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_file_runs_nothing(path, name):
    leaf, block, more = PLANTED[name]
    plant(path, leaf, block, **more)
    with pytest.raises(DamagedState, match=SAID.get(name)):
        read_leaves(path, 0)
    assert RUN == []


def test_a_planted_file_without_a_header(path):
    for content in (b"", b"[]", b"{}", b'{"rows": 0}', b"[" * 100_000, b"\xff"):
        path.write_bytes(struct.pack("<4sHII", b"CKPT", FORMAT, len(content), crc32(content)) + content)
        with pytest.raises(DamagedState):
            read_leaves(path, 0)


@pytest.mark.parametrize("number", [1, 3, FORMAT + 1])
def test_another_format_is_refused(path, number):
    write_leaves(path, 0, SMALL)
    data = path.read_bytes()
    path.write_bytes(data[:4] + struct.pack("<H", number) + data[6:])
    with pytest.raises(DamagedState, match="not the file of a state in this format"):
        read_leaves(path, 0)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), FULL], ids=["interrupted", "full"])
def test_it_is_written_whole_or_not_at_all(path, monkeypatch, error):
    def failing(*names):
        raise error

    write_leaves(path, 7, SMALL)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(type(error)) as caught:
        write_leaves(path, 7, [np.zeros(1000)])
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
    if error is FULL:
        assert re.search(r"cannot write state 7, which takes 8\.\d+ kB: No space left on device.*0\.state", str(caught.value))
        assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path)


def test_sync_only_where_asked_for(path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write_leaves(path, 0, SMALL)
    assert synced == []
    write_leaves(path, 0, SMALL, sync=True)
    assert len(synced) == 1 + hasattr(os, "O_DIRECTORY"), "the file, and the folder with its name"


def test_a_limit_of_the_system_is_met_in_the_middle(path):
    """A real failure of a write, half of the file being there already."""
    resource = pytest.importorskip("resource", reason="no limits on the size of files on this system")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match=r"cannot write state 7, which takes 8 MB: File too large"):
            write_leaves(path, 7, [np.zeros(10**6)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(path.parent) == []
