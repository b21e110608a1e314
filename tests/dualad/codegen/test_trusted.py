"""Folders and files are looked at when they are open: links, owners, and who may write, all the way from the root."""

import os
import stat
from pathlib import Path

import pytest

from dualad.codegen import trusted
from dualad.codegen.trusted import opened

pytestmark = pytest.mark.skipif(not trusted.POSIX, reason="owners and rights are POSIX's")
ROOT_USER = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
NOBODY = 65534


def refused(path, match):
    with pytest.raises(OSError, match=match), opened(str(path)):
        pass


def test_folders_are_made_for_this_user_alone(tmp_path):
    with opened(str(tmp_path / "a" / "b")) as folder:
        folder.write("f", b"1")
        assert folder.read("f") == b"1" and folder.read("g") is None
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "a/b/f")] == [0o700, 0o700, 0o600]
    with pytest.raises(FileNotFoundError), opened(str(tmp_path / "c"), make=False):
        pass
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write(tmp_path, mode):
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(mode)
    refused(tmp_path / "own", " it may be written by others")
    assert not list((tmp_path / "own").iterdir())


def test_a_folder_on_the_way_that_others_may_write(tmp_path):
    (tmp_path / "a" / "b" / "own").mkdir(parents=True)
    for mode in (0o770, 0o702):
        (tmp_path / "a").chmod(mode)
        refused(tmp_path / "a" / "b" / "own", "a folder on the way to it may be written by others")
    (tmp_path / "a").chmod(0o1777)  # as /tmp: nobody removes or renames what is another's
    with opened(str(tmp_path / "a" / "b" / "own")) as folder:
        folder.write("f", b"")


@ROOT_USER
@pytest.mark.parametrize("part", ["a", "a/own"])
def test_a_folder_of_another_user(tmp_path, part):
    (tmp_path / "a" / "own").mkdir(parents=True)
    os.chown(tmp_path / part, NOBODY, NOBODY)
    refused(tmp_path / "a" / "own", "belongs to another user")


def test_links_of_this_user_are_followed_and_what_they_lead_to_is_looked_at(tmp_path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/../real/./deep")
    (tmp_path / "absolute").symlink_to(tmp_path / "link")
    with opened(str(tmp_path / "absolute" / "own")) as folder:
        folder.write("f", b"2")
    assert (tmp_path / "real" / "deep" / "own" / "f").read_bytes() == b"2"
    (tmp_path / "real").chmod(0o777)
    refused(tmp_path / "absolute" / "own", "may be written by others")


def test_links_in_a_circle_and_files_in_place_of_folders(tmp_path):
    (tmp_path / "circle").symlink_to("circle")
    refused(tmp_path / "circle" / "own", "symbolic links|ELOOP")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "Not a directory")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    with opened(str(tmp_path / "nowhere")):
        assert (tmp_path / "missing").is_dir()


@ROOT_USER
def test_a_link_of_another_user(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    link = tmp_path / "shared" / "link"
    link.symlink_to(tmp_path / "own")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    refused(link, "the link 'link' on the way to it belongs to another user")


def pipe(path):
    os.mkfifo(path)


def link(path):
    (path.parent / "target").write_bytes(b"3")
    path.symlink_to("target")


def writable(path):
    path.write_bytes(b"3")
    path.chmod(0o620)


@pytest.mark.parametrize("make", [pipe, link, writable, Path.mkdir])
def test_files_that_are_no_plain_ones_of_this_user_alone_are_not_read(tmp_path, make):
    make(tmp_path / "f")
    with opened(str(tmp_path)) as folder:
        assert folder.read("f") is None
        if make is not Path.mkdir:
            folder.write("f", b"4")
            assert folder.read("f") == b"4" and sorted(file[1:] for file in folder.files() if file[2] == "f") == [(1, "f")]
    if make is link:
        assert (tmp_path / "target").read_bytes() == b"3"


@ROOT_USER
def test_files_of_another_user_are_not_read(tmp_path):
    with opened(str(tmp_path)) as folder:
        folder.write("f", b"5")
        os.chown(tmp_path / "f", NOBODY, NOBODY)
        assert folder.read("f") is None


def test_errors_name_the_folder(tmp_path):
    with pytest.raises(OSError, match=f"{tmp_path}/own'"), opened(str(tmp_path / "own")) as folder:
        (tmp_path / "own").rmdir()
        folder.write("f", b"")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match=f"{tmp_path}/file/own'"), opened(str(tmp_path / "file" / "own")):
        pass


def test_a_folder_that_is_exchanged_while_it_is_open(tmp_path):
    with opened(str(tmp_path / "own")) as folder:
        folder.write("f", b"6")
        (tmp_path / "own").rename(tmp_path / "aside")
        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "f").write_bytes(b"another's")
        assert folder.read("f") == b"6"
        folder.write("g", b"7")
    assert (tmp_path / "aside" / "g").exists() and not (tmp_path / "own" / "g").exists()


def test_nothing_is_left_open(tmp_path):
    if not os.path.exists("/dev/fd"):
        pytest.skip("open files are counted in /dev/fd")
    before = len(os.listdir("/dev/fd"))
    (tmp_path / "link").symlink_to("a/b")
    (tmp_path / "shared").mkdir(mode=0o777)
    (tmp_path / "shared").chmod(0o777)
    for name in ("a/b/c", "link/d", "shared/e"):
        try:
            with opened(str(tmp_path / name)) as folder:
                folder.read("f")
        except PermissionError:
            assert name == "shared/e"
    assert len(os.listdir("/dev/fd")) == before


def test_where_there_are_no_descriptors_of_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(trusted, "POSIX", False)
    with opened(str(tmp_path / "own")) as folder:
        folder.write("f", b"8")
        assert folder.read("f") == b"8" and [file[1:] for file in folder.files()] == [(1, "f")]
        folder.remove("f")
        assert folder.read("f") is None
