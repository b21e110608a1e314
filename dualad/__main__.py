"""``python -m dualad coverage`` prints which functions have derivatives, ``python -m dualad cache`` where compiled code is kept."""

from __future__ import annotations

import argparse
import sys

from . import __version__
from .support.progress import written


def main(arguments=None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m dualad",
        usage="python -m dualad coverage [--help]\n       python -m dualad cache [--help] [show | clear]\n"
        "       python -m dualad --version",
        description="Derivatives of plain NumPy code: what is covered, and what is kept on disk.",
    )
    parser.add_argument("--version", action="version", version=f"dualad {__version__}")
    commands = parser.add_subparsers(prog=parser.prog, dest="command", required=True, metavar="command")
    commands.add_parser(
        "coverage",
        usage="python -m dualad coverage [--help]",
        help="print how many functions of NumPy and scipy.special have derivatives, by namespace",
        description="Print a table of the functions that dispatch on their arguments, by namespace. ruled: differentiable in "
        "both modes. constant: the derivative is zero, or the result is no number. refused: raises, with the reason "
        "and what to use. unknown: raises as a function without a rule. scipy.special is counted where SciPy is "
        "installed.",
    )
    kept = commands.add_parser(
        "cache",
        usage="python -m dualad cache [--help] [show | clear]",
        help="print where dualad.jit keeps machine code, and how much there is, or remove it",
        description="The folder is $DUALAD_CACHE_DIR, ~/.cache/dualad by default; it takes $DUALAD_CACHE_SIZE at most, 256 MB by "
        "default, and with 0 nothing is kept.",
    )
    kept.add_argument("action", nargs="?", choices=["show", "clear"], default="show", help="show (the default) or clear")
    given = parser.parse_args(arguments)
    if given.command == "cache":
        return cache(given.action)
    from .verbs.coverage import table

    return written(table())


def cache(action) -> int:
    """Print what the cache holds, or how much was removed."""
    from .codegen.cache import clear_cache, described, reason
    from .support.byte_sizes import format_bytes

    try:
        text = described() if action == "show" else f"{format_bytes(clear_cache())} freed"
    except OSError as error:
        print(f"python -m dualad: {reason(error)}", file=sys.stderr)
        return 1
    return written(text)


if __name__ == "__main__":
    sys.exit(main())
