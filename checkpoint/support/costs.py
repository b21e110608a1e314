"""Every threshold, budget and heuristic of `checkpoint`: its unit, what it buys, and the measurement that chose it.

Imported by name where it is used; this file imports nothing. ``python -m benchmarks.costs`` lists what can be measured again. Sizes
that are part of a file's format stand with the format; arrays are small as `dualad.support.costs` says.
"""

# --- what a sweep holds ---------------------------------------------------------------------------------------------------------------

#: bytes of a state below which the objects around its data count in a budget (0.5 % of a larger one)
OVERHEAD_BYTES = 1 << 16
#: bytes of a compiled step's state from which its memory is used again; a smaller one is sooner made (40 steps of Gray-Scott, 256 x 256:
#: 27 ms where memory is always made, 23)
REUSED_BYTES = 1 << 16

# --- schedules ------------------------------------------------------------------------------------------------------------------------

#: steps, or slots, of a table by which a schedule is found: of order slots * N^2
TABLE_STEPS = 4096
#: bytes of such tables that are kept for the next call: those of 20 slots and 1000 steps take 20 MB
TABLE_BYTES = 64 << 20
#: bytes of the states inside of a block and between blocks, where nothing is said: they stay in a core's cache (10^4
#: steps of Lorenz: 44 ms, 55 with blocks of one step, 56 with 64 MB; 2026-11-22)
BLOCK_BYTES = 256 << 10
#: blocks whose steps are counted action by action for each length that is tried (100 steps of 4 kB with CTZ(): 1.49 evaluations of each
#: without, 1.36)
COUNTED_BLOCKS = 64
#: blocks of the length that is chosen, whose steps are counted for `stats.reason`; of more it says "about"
COUNTED_CHOSEN_BLOCKS = 4096
#: lengths of blocks that are tried below the longest, which leaves no room for states between blocks (3000 steps of 8 kB in 256 kB: the
#: predicted time is 21 % longer without)
BLOCK_LENGTHS = 3
#: seconds that an action costs in Python, and an addition in compiled loops over arrays
ACTION_SECONDS = 5e-6
ADDITION_SECONDS = 1e-10

# --- steps ----------------------------------------------------------------------------------------------------------------------------

#: elements of an array that are compared at a step; over the steps all have their turn
SNAPSHOT_ELEMENTS = 1024
#: programs, loops and predicates that are kept of a compiled step
KEPT_OF_STEP = 64
#: bytes of the states of a traced loop that are kept for its derivatives, where no budget is given
LOOP_BYTES = 64 << 20
#: bytes of the arguments with which a traced loop took a new path that are kept for its next trace
KEPT_VARIANT_BYTES = 1 << 16
#: seconds for which steps that branch are made by NumPy before loops are compiled, which takes longer, for the paths that they take; steps
#: of twice `CHUNK_BYTES` are not
AHEAD_SECONDS = 0.05
#: seconds of a compiled call: after shorter ones it makes more steps, after ten times as long ones fewer, so that Ctrl-C is heard
CALL_SECONDS = 0.02

# --- storage --------------------------------------------------------------------------------------------------------------------------

#: bytes of a state that is packed in rows with others
PACKED_BYTES = 4096
#: kinds of packed states that one sweep tells apart; a pattern takes longer to make than a small state to save
KNOWN_PATTERNS = 64
#: bytes of small states in main memory beyond which the oldest are written
UNWRITTEN_BYTES = 64 << 20
#: bytes of states, or rows, that are gathered in main memory and written in one file (an eighth of `UNWRITTEN_BYTES`); a larger state has
#: a file of its own
GATHERED_BYTES = 8 << 20
#: large states in main memory that wait to be written, where nothing is said; durable ones may take so many bytes
WRITE_QUEUE = 2
WRITE_QUEUE_BYTES = 1 << 30
#: seconds of waiting for a disk after which it may warn
WAIT_WARNING_SECONDS = 5.0

# --- what outlives the process --------------------------------------------------------------------------------------------------------

#: part of the time that durable points may take
POINT_SHARE = 0.05
#: part of the time that comparisons of long evaluations may take
COMPARED_SHARE = 0.05
#: bytes a second that a disk takes, before it is known
DISK_RATE = 1 << 29
#: seconds: an evaluation that took less may be made again, to compare
COMPARED_SECONDS = 1.0

# --- reports --------------------------------------------------------------------------------------------------------------------------

#: a step that is recorded, kept and pulled, by one that is made twice and pulled: 0.9 to 1.7 in chains of 2 to 10^6 numbers
RECORD_COST = 4 / 3

# --- differential equations -----------------------------------------------------------------------------------------------------------

#: bytes of the states of all steps of a solution below which they are kept: each step is made twice, not 4.7 times (788 steps of Lorenz
#: eagerly; 2026-11-22)
SOLUTION_BYTES = 4 << 20
#: bytes of interpolated states that compiled steps may make besides those that are asked for
SPARE_ROW_BYTES = 4 << 20
#: rows of interpolated states for each time that is asked for, and at least: with more of them it is cheaper to begin another chain. Not
#: where steps are compiled (30 times in 734 steps of Lorenz: a gradient takes 1.6 ms in one chain, 9.2 in 20; 2026-11-23)
ROWS_PER_TIME = 4
LEAST_ROWS = 32
