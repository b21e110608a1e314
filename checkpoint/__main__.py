"""The command line: ``python -m checkpoint`` with ``draw``, ``compare``, ``plan`` or ``profile``."""

import argparse
import ast
import importlib
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from traceback import extract_tb
from typing import Any

from dualad import __version__
from dualad.support.byte_sizes import parse_bytes
from dualad.support.callers import BETWEEN, owner
from dualad.support.progress import written

from .report.compare import Tradeoff, compare
from .report.draw import check_picture, draw, plot_schedule
from .report.profile import profile
from .schedules import parse
from .schedules.parse import FORMS
from .sweep.plan import plan


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (by default that of the command line) and print its result; return 0, or 2 if it cannot be done.

    The reason is then on standard error. Exits with status 2 if an option cannot be read, and with 0 after ``--help``.

    >>> main(["compare", "--steps", "100", "--state", "1MB", "--schedules", "ctz,revolve:7"])
    100 steps, a state of 1 MB
    schedule                saved states  memory  advances   work
    CTZ(refill='binomial')             8    8 MB       274  3.75x
    Revolve(slots=7)                   7    7 MB       255  3.56x
    0
    """
    options = make_parser().parse_args(arguments)
    try:
        if options.plot is not None:
            check_picture(options.plot)  # before the work
        text = options.run(options)
    except (ValueError, TypeError, ImportError, OSError) as error:
        users = [at for at in extract_tb(error.__traceback__) if owner(at.filename) not in BETWEEN]
        places = [f"in {at.name}, {at.filename}, line {at.lineno}" for at in users[-1:]]
        print(f"checkpoint: error: {error}", *getattr(error, "__notes__", ()), *places, sep="\n  ", file=sys.stderr)
        return 2
    return written(text)


def terminal_width() -> int | None:
    """Columns of the terminal, or what ``COLUMNS`` says; None where neither is."""
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()):
        return None
    return shutil.get_terminal_size().columns


def run_draw(options: argparse.Namespace) -> str:
    if options.plot is None:
        picture = draw(options.schedule, options.steps)
        needed, width = max(map(len, picture.splitlines()[2:])), terminal_width()
        if width is not None and needed > width:
            raise ValueError(f"draw: the picture needs {needed} columns, the terminal has {width}; give fewer steps, or --plot FILE")
        return picture
    plot_schedule(options.schedule, options.steps, options.plot)
    return str(options.plot)


def run_compare(options: argparse.Namespace) -> str:
    costs = {"pull_cost": options.pull_cost, "record_cost": options.record_cost}
    table = compare(steps=options.steps, state_bytes=options.state, schedules=options.schedules, memory=options.memory, **costs)
    return shown(table, options)


def shown(table: Tradeoff, options: argparse.Namespace) -> str:
    if options.plot is not None:
        table.plot(options.plot)
    return table.to_markdown() if options.markdown else table.to_text(terminal_width())


def run_plan(options: argparse.Namespace) -> str:
    text, width = str(plan(options.steps, options.state, options.memory, options.step_seconds, options.save_seconds)), terminal_width()
    if width is None:
        return text
    return "\n".join(textwrap.fill(line, max(width, 30), subsequent_indent=" " * 10) for line in text.splitlines())


def run_profile(options: argparse.Namespace) -> str:
    table = profile(options.step, options.state, *options.params, steps=options.steps, schedules=options.schedules, memory=options.memory)
    return shown(table, options)


def imported(text: str) -> Any:
    """What ``module:name`` says, or a number, or another literal of Python."""
    if re.fullmatch(r"[\w.]+:\w+", text):
        module, name = text.split(":")
        sys.path.insert(0, os.getcwd())
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"imported: {text!r}: {error}") from None
        finally:
            sys.path.pop(0)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise ValueError(f"imported: {text!r} is neither module:name, such as pendulum:step, nor a number or another literal") from None


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


def option(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader whose errors argparse shows, with the name of the option instead of the reader's."""

    def read_option(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix(f"{read.__name__}: ").removeprefix("size: ")) from None

    return read_option


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m checkpoint",
        description="Reverse a long chain of steps with few saved states: what does it take?",
    )
    parser.add_argument("--version", action="version", version=f"dualad {__version__}")
    count, size, schedule = option(parse_count), option(parse_bytes), option(parse)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    steps = argparse.ArgumentParser(add_help=False)
    steps.add_argument("--steps", type=count, required=True, metavar="N", help="length of the chain, for instance 1000 or 1e6")
    steps.add_argument("--plot", metavar="FILE", help="write a picture: .png, .svg, .pdf and whatever else matplotlib writes")

    several = lambda text: [schedule(word) for word in text.split(",")]
    table = argparse.ArgumentParser(add_help=False)
    table.add_argument("--memory", type=size, metavar="SIZE", help='the best schedule for this budget, too: "2 GB"')
    table.add_argument("--schedules", type=several, metavar="S,S,...", help=f"each {FORMS} (default: a selection)")
    table.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    state = argparse.ArgumentParser(add_help=False)
    state.add_argument("--state", type=size, required=True, metavar="SIZE", help='size of one state: 8MB, "1.5 GiB", 4096')

    def command(run: Callable[[argparse.Namespace], str], parents: list[argparse.ArgumentParser], about: str, description: str) -> Any:
        added = commands.add_parser(run.__name__.removeprefix("run_"), parents=parents, help=about, description=description)
        added.set_defaults(run=run, plot=None)
        return added.add_argument

    add = command(
        run_draw,
        [steps],
        "picture of a schedule: states across, time downwards",
        "Draw what a schedule does with a short chain (at most 120 steps, with --plot 2000).",
    )
    add("--schedule", type=schedule, default="ctz", metavar="S", help=f"{FORMS} (default: ctz)")
    add = command(
        run_compare,
        [steps, table, state],
        "table of memory against recomputation",
        "Count what schedules need: states and bytes saved, steps advanced, and all evaluations of the "
        "step as a multiple of one simulation. Takes some seconds for a million steps.",
    )
    add("--pull-cost", type=float, metavar="C", help="what a pull takes, in plain steps (default: 1)")
    add("--record-cost", type=float, metavar="C", help="cost of a recorded step, in plain steps (default: 4/3 of 1 + a pull)")
    add = command(
        run_plan,
        [state],
        "the schedule for a budget of memory",
        "Choose the schedule, and where states are saved, of the shortest predicted time that a budget of memory allows.",
    )
    add("--steps", type=count, metavar="N", help="length of the chain; leave it out if it is not known before")
    add("--memory", type=size, required=True, metavar="SIZE", help='the budget: "2 GB"')
    add("--step-seconds", type=float, metavar="T", help="time of one step")
    add("--save-seconds", type=float, metavar="T", help="time to write a state to disk, which may then be used")
    add = command(
        run_profile,
        [steps, table],
        "table of what schedules take, measured",
        "Run a chain and its reverse sweep under several schedules, and measure times and memory.",
    )
    add("step", type=option(imported), metavar="STEP", help=OBJECT)
    add("state", type=option(imported), metavar="STATE", help="its first state")
    add("params", type=option(imported), nargs="*", metavar="PARAM", help="its params")
    return parser


OBJECT = "the step of a chain: module:name in the folder you are in, such as pendulum:step; what follows may also be a literal"

if __name__ == "__main__":
    sys.exit(main())
