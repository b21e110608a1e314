"""Fixtures of the tests of what a sweep leaves on disk."""

import os

import pytest

from checkpoint import Fit


@pytest.fixture
def folder(tmp_path):
    """A folder that is not there yet."""
    return tmp_path / "folder"


@pytest.fixture
def no_fsync(monkeypatch):
    """A point after every step waits for the disk; the system keeps what is written, whatever ends the process."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def fit(tmp_path):
    """A fit whose chains write nothing."""
    from checkpoint.durable import fit_folder

    yield Fit(tmp_path / "fit", every=1e6)
    fit_folder.give_free()


@pytest.fixture
def durable(fit):
    """A fit whose chains write at every step."""
    return Fit(fit.path, every=0)


@pytest.fixture
def not_again(monkeypatch):
    """No evaluation of a fit is made again to compare its result."""
    from checkpoint.durable.fit import DurableFunction

    monkeypatch.setattr(DurableFunction, "_same", lambda *arguments: True)
