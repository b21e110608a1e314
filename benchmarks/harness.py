"""The harness: one subprocess a peer, answers compared before any time is shown, medians over interleaved repeats.

A workload is a module with a list of `Table`s, a generator of the plain primals and a dict of `Peer`s, and ends in `main(...)`.
A builder yields ``(table, row, Case)``; a row that it leaves out is "n/a" in its column.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import timeit
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import truediv
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import NamedTuple

import numpy as np

from dualad import keep_heap

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
ALLOCATORS = ("pinned", "default")  # pinned: `dualad.keep_heap` in every peer's process
REPEATS = 7  # interleaved: all rows of all peers once, then again
LONG_ENOUGH = 0.005  # seconds, the least of one repeat; short calls are made many times
LONG, TOO_LONG = 1.0, 20.0  # seconds from which a call is timed only three times, or only once


# --- public -----------------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """The call ``f(*args)`` that is timed; its result is what peers must agree on.

    `answer` turns the result into something NumPy understands; `columns(seconds, primal)` gives further columns, ``{title: text}``,
    asked after the last call; in a table of tasks what stands behind a line break is listed below it.
    """

    f: Callable
    args: tuple = ()
    answer: Callable = lambda result: result
    columns: Callable = lambda seconds, primal: {}


class Peer(NamedTuple):
    """Who takes part: ``build(quick)`` yields its cases; `needs` names a distribution of the same import name.

    The first peer that has a row is the reference for its answer. `ours`: failing or disagreeing is an error of the benchmark.
    """

    build: Callable
    needs: str | None = None
    ours: bool = False


@dataclass(frozen=True)
class Table:
    """A table: a row a task and a column a peer, or with `by_peer` a row a peer (for one task).

    versus : (slow, ..., fast), peers: a last column with the ratio of the quickest of the first ones to the last one, and a line that
        sums it up.
    base : what the ratios are multiples of, if that is not a plain primal.
    arrays : repeat it under the default allocator.
    rtol : agreement of answers, relative to the largest number of the reference.
    """

    title: str
    unit: str = "us"
    by_peer: bool = False
    base: str = "primal"
    versus: tuple[str, ...] | None = None
    arrays: bool = False
    rtol: float = 1e-9


def main(name, tables, primals, peers):
    """Run the workload `name` (a module of this package) as its command line says."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat: does it run at all?")
    parser.add_argument("--allocator", choices=[*ALLOCATORS, "both"], help="default: both; with --quick: pinned")
    parser.add_argument("--peers", help="only these, separated by commas")
    parser.add_argument("--repeats", type=int, help=f"default: {REPEATS}")
    parser.add_argument("--serve", metavar="PEER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        if options.allocator == "pinned":
            keep_heap()
        return serve(primals, peers[options.serve], options.quick)
    chosen = [peer.strip() for peer in options.peers.split(",")] if options.peers else list(peers)
    unknown = [peer for peer in chosen if peer not in peers]
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(peers)}")
    repeats = options.repeats or (1 if options.quick else REPEATS)
    allocator = options.allocator or ("pinned" if options.quick else "both")
    allocators = list(ALLOCATORS) if allocator == "both" else [allocator]
    here = [peer for peer in chosen if installed(peers[peer].needs)]
    missing = [peer for peer in chosen if peer not in here]

    print(f"# benchmarks.{name}\n\n{describe(peers, here)}")
    if missing:
        print(f"Not installed: {', '.join(missing)}.")
    bad = []
    for i, allocator in enumerate(allocators):
        wanted = [table for table in tables if i == 0 or table.arrays]
        if wanted:
            print(f"\n## Allocator: {allocator}", flush=True)
            bad += run(name, wanted, peers, here, allocator, options.quick, repeats)
    for line in bad:
        print(line, file=sys.stderr)
    return 1 if bad else 0


# --- memory -----------------------------------------------------------------------------------------------------------------


class Memory:
    """The growth of the process's resident memory in the first call."""

    def __init__(self, f):
        self.f, self.grown = f, None

    def __call__(self, *args):
        if self.grown is not None:
            return self.f(*args)
        gc.collect()
        trim()
        before = resident_peak(reset=True)
        result = self.f(*args)
        self.grown = resident_peak() - before
        return result

    def __str__(self):
        return f"{self.grown / 1e6:.1f} MB"


def trim():
    """Give memory that is free in the heap back to the system (glibc), so that a call that takes it again is seen to."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_peak(reset=False):
    """Return the peak of resident memory in bytes; Linux can begin it anew."""
    try:
        if reset:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        with open("/proc/self/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["VmHWM"].split()[0]) * 1024
    except OSError:
        try:
            import resource
        except ImportError:
            return math.nan
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


# --- the parent: asks every peer in turn ------------------------------------------------------------------------------------


class Outcome:
    """What one peer did in one row."""

    def __init__(self):
        self.error = None
        self.difference, self.is_reference = math.nan, False
        self.seconds, self.primal, self.columns = [], [], {}

    @property
    def ratio(self):
        return median(a / b for a, b in zip(self.seconds, self.primal, strict=True))


def run(name, tables, peers, here, allocator, quick, repeats):
    """Measure and print tables; return what went wrong with our own."""
    bad = []
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        children = {peer: stack.enter_context(Child(name, peer, allocator, quick)) for peer in here}
        supported = {}
        for peer in list(children):
            try:
                supported[peer] = children[peer].ask("rows")
            except Ended as error:  # as a peer may that changed its interface
                print(f"\n{error}")
                bad += [str(error)] if peers[peer].ours else []
                del children[peer]
        for table in tables:
            rows = list(dict.fromkeys(row for keys in supported.values() for title, row in keys if title == table.title))
            results = {row: {peer: Outcome() for peer in children if [table.title, row] in supported[peer]} for row in rows}
            measure(table, results, children, repeats, folder)
            bad += [
                f"{table.title}, {row}: {peer}: {outcome.error}"
                for row, outcomes in results.items()
                for peer, outcome in outcomes.items()
                if outcome.error and peers[peer].ours
            ]
            if rows:
                print(f"\n### {table.title}\n")
                print(peer_table(table, results) if table.by_peer else task_table(table, results, list(children)), flush=True)
    return bad


def measure(table, results, children, repeats, folder):
    """Fill in the outcomes of a table: first all answers, then the times.

    Every repeat goes through the whole table, so that a busy second of the machine spoils one repeat of some rows, which
    the median leaves out, and not all repeats of one row.
    """
    for row, outcomes in results.items():
        compare([table.title, row], outcomes, children, table.rtol, os.path.join(folder, "answer.npy"))
    right = [(row, peer, outcome) for row, outcomes in results.items() for peer, outcome in outcomes.items() if not outcome.error]
    again = [entry for entry in right if not entry[2].seconds]
    for _ in range(repeats):
        for row, peer, outcome in again:
            reply = children[peer].ask("time", [table.title, row])
            outcome.seconds.append(reply["seconds"])
            outcome.primal.append(reply["primal"])
    for row, peer, outcome in right:
        outcome.columns = children[peer].ask("columns", [table.title, row], median(outcome.seconds), median(outcome.primal))


def compare(key, outcomes, children, rtol, path):
    """Compare the answers of one row with that of its first peer; calls that are long are timed here."""
    reference, first = None, None
    for peer, outcome in outcomes.items():
        try:
            reply = children[peer].ask("answer", key, path)
        except Ended as error:
            reply = {"error": str(error)}
        if "error" in reply:
            outcome.error = reply["error"]
            continue
        answer = np.load(path)
        if reference is None:
            reference, first, outcome.is_reference = answer, peer, True
        outcome.difference = difference(answer, reference)
        if not outcome.difference <= rtol:
            outcome.error = f"disagrees with {first} by {outcome.difference:.1e}"
        elif "seconds" in reply:
            outcome.seconds, outcome.primal = reply["seconds"], reply["primal"]


def difference(answer, reference):
    """Return the largest difference relative to the reference's largest number; NaN and inf must be in the same places."""
    if answer.shape != reference.shape:
        return math.inf
    same = (answer == reference) | (np.isnan(answer) & np.isnan(reference))
    if same.all():
        return 0.0
    with np.errstate(invalid="ignore"):
        apart = float(np.max(np.abs(answer - reference), initial=0.0, where=~same))
    scale = float(np.max(np.abs(reference), initial=0.0, where=np.isfinite(reference)))
    return apart / scale if scale else math.inf


class Ended(RuntimeError):
    """A peer's subprocess is gone."""


class Child:
    """A peer's subprocess, asked in lines of JSON."""

    def __init__(self, name, peer, allocator, quick):
        command = [sys.executable, "-m", f"benchmarks.{name}", "--serve", peer, "--allocator", allocator, *["--quick"] * quick]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
        self.peer = peer
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | ONE_THREAD,
            cwd=Path(__file__).parent.parent,
        )

    def ask(self, *request):
        line = ""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        if not line:
            raise Ended(f"The subprocess of {self.peer} ended with status {self.process.wait()}, asked for {request[0]}")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        if exception[0] is not None:
            self.process.kill()
        self.process.wait()


def rows_of(workload, *options):
    """Yield the lines that a module of this package prints in a process of its own, split at tabs; its status is printed if it is bad."""
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{workload}", *options]
    process = subprocess.run(command, capture_output=True, text=True, env=os.environ | ONE_THREAD, check=False)
    for line in process.stdout.splitlines():
        yield line.split("\t")
    if process.returncode not in (0, 1):
        print(f"{workload} {' '.join(options)} ended with status {process.returncode}\n{process.stderr[-2000:]}")


def counts_table(head, counts):
    """Return a Markdown table of Counters by name, and of their sum."""
    counts = {**counts, "all": sum(counts.values(), Counter())}
    kinds = list(counts["all"])
    return markdown([head, *map(str, kinds)], [[name, *(str(found[kind]) for kind in kinds)] for name, found in counts.items()])


def installed(needs):
    return needs is None or importlib.util.find_spec(needs) is not None


def describe(peers, here):
    needs = sorted({peers[peer].needs for peer in here} - {None})
    versions = [f"NumPy {np.__version__}", *(f"{name} {importlib.metadata.version(name)}" for name in needs)]
    return (
        f"Python {platform.python_version()}, {', '.join(versions)}; {platform.system()} {platform.machine()}, "
        f"one thread each.\nIn brackets: multiples of the plain primal, measured in the same subprocess."
    )


# --- tables -----------------------------------------------------------------------------------------------------------------

UNITS = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}


def show(seconds, unit):
    return f"{seconds * UNITS[unit]:.3g}" if seconds * UNITS[unit] < 1000 else f"{seconds * UNITS[unit]:.0f}"


def task_table(table, results, here):
    """Return a Markdown table with a row a task and a column a peer."""
    columns = [peer for peer in here if any(peer in outcomes for outcomes in results.values())]
    head = ["", f"{table.base}, {table.unit}", *(f"{peer}, {table.unit}" for peer in columns)]
    *slow, fast = [peer for peer in table.versus or () if peer in columns] or [None]
    versus = slow if table.versus and fast == table.versus[-1] else []
    extra = column_names(results.values())
    lines, factors, remarks, errors = [], [], [], []
    for row, outcomes in results.items():
        primals = [t for outcome in outcomes.values() for t in outcome.primal]
        cells = [row, show(median(primals), table.unit) if primals else ""]
        for peer in columns:
            outcome = outcomes.get(peer)
            if outcome is None:
                cells.append("n/a")
            elif outcome.error:
                cells.append("fails")
                errors.append(f"- {peer}, {row}: {outcome.error}")
            else:
                cells.append(f"{show(median(outcome.seconds), table.unit)} ({outcome.ratio:.1f}x)")
        if versus:
            found = [multiple(outcomes[peer], outcomes[fast]) for peer in versus if timed(outcomes, peer) and timed(outcomes, fast)]
            cells.append(f"{min(found):.2f}" if found else "")
            factors += [min(found)] if found else []
        for name in extra:
            texts = [outcome.columns[name].partition("\n") for outcome in outcomes.values() if name in outcome.columns]
            cells.append(", ".join(text for text, _, _ in texts))
            remarks += [f"- {row}: {remark}" for _, _, remark in texts if remark]
        lines.append(cells)
    if versus:
        head.append(" / ".join((versus[0] if len(versus) == 1 else f"the quickest of {', '.join(versus)}", fast)))
    text = [markdown([*head, *extra], lines)]
    if factors:
        text.append(
            f"\n{head[-1]}: geometric mean {geometric_mean(factors):.2f}, least {min(factors):.2f}, "
            f"below 1 in {sum(factor < 1 for factor in factors)} of {len(factors)} rows."
        )
    text += ["\nWhy not:\n", *remarks] if remarks else []
    text += ["\nFails:\n", *errors] if errors else []
    return "\n".join(text)


def column_names(tasks):
    """Return the names of the further columns of these outcomes."""
    return list(dict.fromkeys(name for outcomes in tasks for outcome in outcomes.values() for name in outcome.columns))


def timed(outcomes, peer):
    return peer in outcomes and outcomes[peer].seconds


def multiple(slow, fast):
    """Return how many times longer one peer takes than another; long calls are timed less often."""
    if len(slow.seconds) == len(fast.seconds):
        return median(map(truediv, slow.seconds, fast.seconds))
    return median(slow.seconds) / median(fast.seconds)


def peer_table(table, results):
    """Return Markdown tables with a row a peer, one for each task."""
    text = []
    for row, outcomes in results.items():
        extra = column_names([outcomes])
        primals = [t for outcome in outcomes.values() for t in outcome.primal]
        lines = [[table.base, show(median(primals), table.unit), *[""] * (len(extra) + 2)]] if primals else []
        for peer, outcome in outcomes.items():
            if outcome.error:
                lines.append([f"{peer}: {outcome.error}", *[""] * (len(extra) + 3)])
            else:
                lines.append(
                    [
                        peer,
                        show(median(outcome.seconds), table.unit),
                        f"{outcome.ratio:.1f}x",
                        *(outcome.columns.get(name, "") for name in extra),
                        "reference" if outcome.is_reference else f"{outcome.difference:.0e}",
                    ]
                )
        text.append(markdown([row, table.unit, f"x {table.base}", *extra, "difference"], lines))
    return "\n\n".join(text)


def markdown(head, lines):
    """Return a Markdown table, its first column flush left and the others flush right."""
    widths = [max(3, *(len(line[i]) for line in (head, *lines))) for i in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    rows = [
        [cells[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))]
        for cells in (head, rule, *lines)
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


# --- the child: answers until its input ends ----------------------------------------------------------------------------------


def serve(primals, peer, quick):
    """Answer the parent's requests, in a subprocess of this peer's own."""
    replies, sys.stdout = sys.stdout, sys.stderr
    plain = {(table, row): case for table, row, case in primals(quick)}
    cases = {(table, row): case for table, row, case in peer.build(quick)}
    order = [key for key in plain if key in cases]
    if len(order) != len(cases):
        raise ValueError(f"rows without a primal: {sorted(set(cases) - set(plain))}")
    timers = {}
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        key = tuple(arguments.pop(0)) if arguments else None
        if what == "rows":
            reply = order
        elif what == "answer":
            reply = give_answer(cases[key], plain[key], *arguments)
        elif what == "time":
            if key not in timers:
                timers[key] = {"primal": Repeat(plain[key], quick), "seconds": Repeat(cases[key], quick)}
            reply = {name: repeat.once() for name, repeat in timers[key].items()}
        else:
            reply = cases[key].columns(*arguments)
        print(json.dumps(reply), file=replies, flush=True)
    return 0


def give_answer(case, plain, path):
    """Make the first call and save its answer; return the times if it is a long one."""
    try:
        started = perf_counter()
        result = case.f(*case.args)
        seconds = perf_counter() - started
        answer = np.asarray(case.answer(result))
        np.save(path, answer.astype(complex if answer.dtype.kind == "c" else float))
    except Exception as error:  # a peer that cannot do it: the table says so
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:160]}
    if seconds < LONG:
        return {}
    own, primal = Repeat(case, quick=True), Repeat(plain, quick=False)
    if seconds > TOO_LONG:
        return {"seconds": [seconds], "primal": [median(primal.once() for _ in range(3))]}
    pairs = [(own.once(), primal.once()) for _ in range(3)]
    if min(pairs)[0] < LONG:  # what was set up in the first call made it long
        return {}
    return dict(zip(("seconds", "primal"), zip(*pairs, strict=True), strict=True))


class Repeat:
    """A call, or many of a short one, timed at once; the garbage collector runs as it does for users."""

    def __init__(self, case, quick):
        names = [f"a{i}" for i in range(len(case.args))]
        self.timer = timeit.Timer(
            f"f({', '.join(names)})", "gc.enable()", globals={"f": case.f, "gc": gc, **dict(zip(names, case.args, strict=True))}
        )
        self.number = 1
        while not quick and min(self.timer.repeat(2, self.number)) < LONG_ENOUGH:  # a second call may compare, or compile
            self.number *= 2

    def once(self):
        return self.timer.timeit(self.number) / self.number
