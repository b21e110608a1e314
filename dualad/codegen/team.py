"""Teams of threads inside compiled code: helpers wait in machine code, without Python, for blocks of a nest that a caller shares with them.

A team is an array of integers, on which the code of `code_of_team` works. The caller of ``share`` publishes a function and the range of
its blocks. It claims blocks from the front of what is left, and each helper from the front or the back, so that a thread meets its own rows
again in the next nest. The caller waits for claimed blocks alone, so never for a helper that is not awake yet; what it published stays
valid until all are done. A caller that finds the team busy runs its blocks itself.

Helpers stay while compiled functions run, and a moment longer; then they return to Python, where they sleep.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from ..support.costs import WAITS
from ..support.forks import in_child

#: where the numbers of a team stand, on cache lines of their own: LEFT, the first block left and, 32 bits on, the end of the range; DONE,
#: how many blocks helpers have ever computed; the published FUNCTION, STATUS and arguments GIVEN; how many nests were SHARED; whether a
#: caller keeps it BUSY; how many compiled functions are RUNNING; how many HELPERS are here
PLACES = {"LEFT": 16, "DONE": 32, "FUNCTION": 48, "STATUS": 49, "GIVEN": 50, "SHARED": 51, "BUSY": 64, "RUNNING": 80, "HELPERS": 96}
WORDS = 112
#: microseconds of a sleep: Linux makes no shorter ones
NAP = 50

TEAM = """\
declare i32 @dualad_offer()
declare i32 @dualad_sleep(i32)
define internal i64 @take(ptr %left, i64 %step) {{
  br label %again
again:
  %word = load atomic i64, ptr %left acquire, align 8
  %low = and i64 %word, 4294967295
  %high = lshr i64 %word, 32
  %any = icmp ult i64 %low, %high
  br i1 %any, label %try, label %none
try:
  %rest = add i64 %word, %step
  %pair = cmpxchg ptr %left, i64 %word, i64 %rest acq_rel acquire
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %taken, label %again
taken:
  %last = sub i64 %high, 1
  %front = icmp eq i64 %step, 1
  %block = select i1 %front, i64 %low, i64 %last
  ret i64 %block
none:
  ret i64 -1
}}
define void @share_DIGEST(ptr %status, ptr %function, ptr %given, i64 %count) {{
  %team.at = getelementptr i64, ptr %status, i64 1
  %team = load ptr, ptr %team.at
  %busy = getelementptr i64, ptr %team, i64 {BUSY}
  %pair = cmpxchg ptr %busy, i64 0, i64 1 acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %publish, label %alone
alone:
  %k = phi i64 [0, %0], [%k.next, %turn]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %turn, label %end
turn:
  call void %function(ptr %status, ptr %given, i64 %k)
  %k.next = add i64 %k, 1
  br label %alone
publish:
  %function.at = getelementptr i64, ptr %team, i64 {FUNCTION}
  store ptr %function, ptr %function.at
  %status.at = getelementptr i64, ptr %team, i64 {STATUS}
  store ptr %status, ptr %status.at
  %given.at = getelementptr i64, ptr %team, i64 {GIVEN}
  store ptr %given, ptr %given.at
  %shared.at = getelementptr i64, ptr %team, i64 {SHARED}
  %shared = load i64, ptr %shared.at
  %shared.next = add i64 %shared, 1
  store i64 %shared.next, ptr %shared.at
  %done.at = getelementptr i64, ptr %team, i64 {DONE}
  %done.before = load atomic i64, ptr %done.at monotonic, align 8
  %left = getelementptr i64, ptr %team, i64 {LEFT}
  %range = shl i64 %count, 32
  store atomic i64 %range, ptr %left release, align 8
  br label %next
next:
  %own = phi i64 [0, %publish], [%own.next, %compute]
  %block = call i64 @take(ptr %left, i64 1)
  %none = icmp slt i64 %block, 0
  br i1 %none, label %await, label %compute
compute:
  call void %function(ptr %status, ptr %given, i64 %block)
  %own.next = add i64 %own, 1
  br label %next
await:
  %others = sub i64 %count, %own
  %wanted = add i64 %done.before, %others
  br label %look
look:
  %waited = phi i64 [0, %await], [%waited.next, %spin], [%waited.next, %offer]
  %waited.next = add i64 %waited, 1
  %done = load atomic i64, ptr %done.at acquire, align 8
  %over = icmp eq i64 %done, %wanted
  br i1 %over, label %leave, label %wait
wait:
  %soon = icmp ult i64 %waited, {WAITS}
  br i1 %soon, label %spin, label %offer
spin:
  {pause}
  br label %look
offer:
  %offered = call i32 @dualad_offer()
  br label %look
leave:
  store atomic i64 0, ptr %busy release, align 8
  br label %end
end:
  ret void
}}
define i64 @help_DIGEST(ptr %values) {{
  %team = load ptr, ptr %values
  %thread.given = getelementptr i64, ptr %values, i64 1
  %thread = load i64, ptr %thread.given
  %odd = trunc i64 %thread to i1
  %step = select i1 %odd, i64 -4294967296, i64 1
  %own = alloca [3 x i64]
  store i64 0, ptr %own
  %team.at = getelementptr i64, ptr %own, i64 1
  store ptr %team, ptr %team.at
  %thread.at = getelementptr i64, ptr %own, i64 2
  store i64 %thread, ptr %thread.at
  %left = getelementptr i64, ptr %team, i64 {LEFT}
  %done.at = getelementptr i64, ptr %team, i64 {DONE}
  %running.at = getelementptr i64, ptr %team, i64 {RUNNING}
  %helpers.at = getelementptr i64, ptr %team, i64 {HELPERS}
  br label %enter
enter:
  %came = atomicrmw add ptr %helpers.at, i64 1 seq_cst
  br label %look
look:
  %waited = phi i64 [0, %enter], [0, %count], [%waited.next, %spin], [%waited.next, %offer], [%waited, %nap]
  %waited.next = add i64 %waited, 1
  %block = call i64 @take(ptr %left, i64 %step)
  %none = icmp slt i64 %block, 0
  br i1 %none, label %wait, label %compute
compute:
  %function.at = getelementptr i64, ptr %team, i64 {FUNCTION}
  %function = load ptr, ptr %function.at
  %given.at = getelementptr i64, ptr %team, i64 {GIVEN}
  %given = load ptr, ptr %given.at
  call void %function(ptr %own, ptr %given, i64 %block)
  %code = load i64, ptr %own
  %good = icmp eq i64 %code, 0
  br i1 %good, label %count, label %fail
fail:
  %status.at = getelementptr i64, ptr %team, i64 {STATUS}
  %status = load ptr, ptr %status.at
  store i64 %code, ptr %status
  store i64 0, ptr %own
  br label %count
count:
  %one = atomicrmw add ptr %done.at, i64 1 release
  br label %look
wait:
  %soon = icmp ult i64 %waited, {WAITS}
  br i1 %soon, label %spin, label %wait.longer
spin:
  {pause}
  br label %look
wait.longer:
  %later = icmp ult i64 %waited, {LONG}
  br i1 %later, label %offer, label %idle
offer:
  %offered = call i32 @dualad_offer()
  br label %look
idle:
  %running = load atomic i64, ptr %running.at seq_cst, align 8
  %ends = icmp eq i64 %running, 0
  br i1 %ends, label %go, label %nap
nap:
  %slept = call i32 @dualad_sleep(i32 {NAP})
  br label %look
go:
  %went = atomicrmw sub ptr %helpers.at, i64 1 seq_cst
  %slept.last = call i32 @dualad_sleep(i32 {NAP})
  %running.last = load atomic i64, ptr %running.at seq_cst, align 8
  %gone = icmp eq i64 %running.last, 0
  br i1 %gone, label %end, label %enter
end:
  ret i64 0
}}
"""


#: what a thread that waits calls to spare what it shares with others, by processor
PAUSES = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)", "arm64": "@llvm.aarch64.hint(i32 1)"}


def code_of_team(processor: str) -> str:
    """Return the LLVM code of ``share(status, function, given, count)`` and of ``help(team, thread)``."""
    pause = PAUSES.get(processor)
    text = TEAM.format(pause=f"call void {pause}" if pause else "", WAITS=WAITS, LONG=2 * WAITS, NAP=NAP, **PLACES)
    return f"declare void {pause.replace(' 1', '')}\n{text}" if pause else text


def idlers() -> dict[str, Any]:
    """Return the functions of the system that the code calls; that of Windows sleeps for milliseconds, not microseconds."""
    if os.name == "posix":
        library = ctypes.CDLL(None)
        return {"dualad_offer": library.sched_yield, "dualad_sleep": library.usleep}
    library = getattr(ctypes, "windll").kernel32  # noqa: B009
    return {"dualad_offer": library.SwitchToThread, "dualad_sleep": library.Sleep}


class Team:
    """The caller's thread and its helpers, which are started when they are first asked for."""

    def __init__(self, threads: int):
        self.memory = np.zeros(WORDS, np.int64)
        self.memory[PLACES["BUSY"]] = threads == 1  # for ever
        self.others, self.unborn = threads - 1, iter(range(1, threads))
        self.tasks: SimpleQueue = SimpleQueue()

    def ask(self, enter: Callable) -> np.ndarray:
        """Wake the helpers that are not here; return the team as compiled code takes it."""
        with suppress(RuntimeError):  # no thread can be started any more
            for k in self.unborn:
                Thread(target=wait, args=(self.tasks, enter, self.memory, k), name="dualad", daemon=True).start()
        missing = self.others - self.memory.item(PLACES["HELPERS"]) - self.tasks.qsize()
        for _ in range(missing):
            self.tasks.put(None)
        return self.memory


def wait(tasks, enter, memory, k):
    """Help for ever, whenever there is a task; every other helper takes blocks from the back."""
    while True:
        tasks.get()
        enter(memory, k)


TEAMS: dict[int, Team] = {}
in_child(TEAMS.clear)  # it has no threads of its parent's


def helped(function: Callable, threads: int, enter: Callable) -> Callable:
    """Return a compiled function, which takes a team last, as one of its other arguments."""

    def call(*args):
        team = TEAMS.get(threads) or TEAMS.setdefault(threads, Team(threads))
        return function(*args, team.ask(enter))

    return call
