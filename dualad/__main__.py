"""``python -m dualad coverage`` prints which functions have derivatives."""

from __future__ import annotations

import argparse
import sys

from . import __version__
from .console import written
from .coverage import table


def main(arguments=None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m dualad",
        usage="python -m dualad coverage [--help]\n       python -m dualad --version",
        description="Derivatives of plain NumPy code: what is covered.",
    )
    parser.add_argument("--version", action="version", version=f"dualad {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser(
        "coverage",
        usage="python -m dualad coverage [--help]",
        help="print how many functions of NumPy and scipy.special have derivatives, by namespace",
        description="Print a table of the functions that dispatch on their arguments, by namespace. ruled: differentiable in "
        "both modes. constant: the derivative is zero, or the result is no number. refused: raises, with the reason "
        "and what to use. unknown: raises as a function without a rule. scipy.special is counted where SciPy is "
        "installed.",
    )
    parser.parse_args(arguments)
    return written(table())


if __name__ == "__main__":
    sys.exit(main())
