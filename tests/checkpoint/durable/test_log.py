"""A log of rows: what was flushed is read back, whatever stands behind the last whole row."""

import io
from contextlib import closing

import numpy as np
import pytest
from comparing import same
from hypothesis import example, given
from hypothesis import strategies as st

from checkpoint.durable.log import RowLog

LEAVES = st.lists(
    st.one_of(
        st.floats(allow_nan=False),
        st.none(),
        st.integers(),
        st.text(max_size=5),
        st.integers(0, 4).map(lambda n: np.arange(1.0 * n)),
        st.just(np.float32(0.1)),
    ),
    max_size=3,
)


def rows_in(path):
    with closing(RowLog(path)) as log:
        return log.read()


@pytest.mark.slow
@example(rows=[(0, [2**64, -0.0, "\0"])], cut=0, twice=False)
@given(rows=st.lists(st.tuples(st.integers(0, 5), LEAVES), max_size=6), cut=st.integers(0, 60), twice=st.booleans())
def test_whole_rows_are_read_back(tmp_path_factory, rows, cut, twice):
    path = tmp_path_factory.mktemp("log") / "rows"
    sizes = [0]
    for index, leaves in rows:
        log = RowLog(path)
        log.append(index, leaves)
        log.close()
        sizes.append(path.stat().st_size)
    if rows:
        path.write_bytes(path.read_bytes()[: max(sizes[-1] - cut, 0)])
    whole = sum(size <= sizes[-1] - cut for size in sizes[1:]) if rows else 0
    expected = dict(rows[:whole])
    for _ in range(1 + twice):
        found = rows_in(path)
        same(found, expected)
    if rows:
        assert path.stat().st_size == sizes[whole], "the part of a row is cut off"


def test_a_row_is_a_copy_and_must_be_writable(tmp_path):
    log, x = RowLog(tmp_path / "rows"), np.ones(3)
    log.append(0, [x])
    x[:] = 0.0
    with pytest.raises(TypeError, match="leaf of type set"):
        log.append(1, [{1}])
    log.flush()
    log.sync()
    assert rows_in(tmp_path / "rows")[0][0].tolist() == [1.0, 1.0, 1.0]
    log.close()


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    log = RowLog(tmp_path / "rows")
    log.append(0, [np.ones(100)])

    class Full(io.FileIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, Full(tmp_path / "full", "w") as full:
        patch.setattr(log, "file", full)
        with pytest.raises(OSError, match=r"cannot append .* of rows: No space left on device.*rows"):
            log.flush()
    log.close()
    assert rows_in(tmp_path / "rows") == {} == rows_in(tmp_path / "nothing")


def test_rows_of_another_run_do_not_count_and_are_written_over(tmp_path):
    path = tmp_path / "rows"
    for label, expected in (("one", {}), ("two", {}), ("two", {0: [1.0]})):
        with closing(RowLog(path, label)) as log:
            assert log.read() == expected
            log.append(0, [1.0])
    assert rows_in(path) == {} and path.stat().st_size == 0
    with closing(RowLog(path)) as log:
        log.append(0, [1.0])
        log.flush()
        log.clear()
    assert path.stat().st_size == 0, "cleared"
