"""The table of coverage and its command line."""

import subprocess
import sys

import numpy as np
import pytest

from dualad.__main__ import main
from dualad.rules.calling import public_name
from dualad.verbs.coverage import functions, table, treatment


def counts():
    """The rows of the table: name of the namespace, and its numbers."""
    head, *lines = table().splitlines()
    assert head.split() == ["namespace", "ruled", "constant", "refused", "unknown", "total"]
    return {line[:25].strip(): [int(word) for word in line[25:].split()] for line in lines}


def test_the_numbers_add_up():
    rows = counts()
    *spaces, total = rows.values()
    assert list(rows)[-1] == "total"
    assert all(sum(row[:-1]) == row[-1] for row in rows.values())
    assert [sum(column) for column in zip(*spaces, strict=True)] == total
    assert total[-1] == len(functions())


def test_special_functions():
    special = pytest.importorskip("scipy.special")
    assert treatment(special.erf) == "ruled" and treatment(special.gammasgn) == "constant"
    assert treatment(special.kolmogorov) == "ruled" and treatment(special.zetac) == "refused"
    names = [public_name(fn) for fn in (special.erf, special.cbrt, np.cbrt)]
    assert names == ["scipy.special.erf", "scipy.special.cbrt", "numpy.cbrt"]


def test_treatments():
    assert [treatment(fn) for fn in (np.sin, np.floor, np.gcd, np.linalg.det)] == ["ruled", "constant", "refused", "ruled"]


def test_the_command_prints_the_table(capsys):
    main(["coverage"])
    assert capsys.readouterr().out == table() + "\n"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [(["--help"], 0, "coverage"), (["coverage", "--help"], 0, "refused"), ([], 2, "required"), (["cover"], 2, "invalid choice")],
)
def test_help_and_bad_arguments(arguments, code, text, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    assert stop.value.code == code and text in out + err


@pytest.mark.slow
def test_it_runs_as_a_module():
    run = subprocess.run([sys.executable, "-m", "dualad", "coverage"], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.startswith("namespace")
