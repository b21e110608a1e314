"""Fixtures of the tests of what a sweep leaves on disk."""

import os

import pytest


@pytest.fixture
def folder(tmp_path):
    """A folder that is not there yet."""
    return tmp_path / "folder"


@pytest.fixture
def no_fsync(monkeypatch):
    """A point after every step waits for the disk; the system keeps what is written, whatever ends the process."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
