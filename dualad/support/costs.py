"""Every threshold, budget and heuristic of `dualad`: its unit, what it decides, and the measurement that chose it.

Imported by name where it is used; this file imports nothing. ``python -m benchmarks.costs`` lists what can be measured again, and
``python -m benchmarks.costs NAME`` does. Limits of formats, of the platform and of an approximation's range stand where they are used.

How to read it: the first line of a comment gives the unit and the meaning. "Also" is another decision that takes the same number, or a
multiple of it. "Measured" compares the time without the threshold (moved so far that it decides nothing) to the time with it, least of
many calls (2026-11-22). "A limit" bounds time or memory in rare cases and was not chosen by a measurement.
"""

# --- arrays ---------------------------------------------------------------------------------------------------------------------------

#: Bytes of a small array. Small arrays are held: by machine code, and by a program that computed them from constants.
#: Larger ones are freed after their last use, share the memory in which loops work, and one stands for all alike while a program is traced.
#: Measured: a gradient that holds 400 numbers, 57 us to 50; a step of the gradient of turbulence at 256 x 256, 6.1 ms to 5.2.
SMALL_ARRAY_BYTES = 4096
#: Bytes that may be taken without being asked for: to compare results with the plain function's, or by a sparsity pattern.
#: Also, a sixteenth: the directions of a compiled chunk, since each chunk is code of its own; a copy of an array that is watched in a
#: memory map or in an object of an installed class. A limit.
MEMORY_BYTES = 1 << 30
#: Parts that are treated one by one; of more, all at once. They are numbers that a function takes or returns, elements of a stack that is
#: made of one vector, elements of a container that is watched, and places that a guard reads.
#: Measured: a sum of 4000 numbers compiles in 11.3 s to 2.2.
#: Also: elements that are sorted by counting how many come before each. Measured, counted and by a call of NumPy: of 50, 1.9 us and 8.5;
#: of 100, 4.5 and 9.0; of 200, 13.0 and 9.5.
#: Also, as limits: containers within one another, and entries of a row that one of the orders of colouring counts.
ONE_BY_ONE = 100

# --- directions (forward mode) --------------------------------------------------------------------------------------------------------

#: Bytes of one tangent of K directions, which leave room for a rule's temporaries in a cache of 1 or 2 MB.
#: Measured: the dense Jacobian of Burgers' equation, n = 1000, 102 ms with all directions at once, 63 with four, 22 with this.
#: Also: a program that needs more memory than this is compiled at its first call, even where it will be compiled again for more paths.
CHUNK_BYTES = 512_000
#: Directions of a chunk at least, as the function itself is evaluated once a chunk. Measured: a sparse Jacobian of a stencil, n = 10^6,
#: 48 ms one by one to 27.
#: Also: directions of the chunk that measures how much memory each one takes.
#: Also: divisions into dense and other rows that colouring in both modes tries. Measured: 1000 rows whose lengths are of a power law,
#: 52 colours in 607 ms with 8, in 281 with this; 300 rows, 31 colours with 8 and with this, 32 with 2.
CHUNK_DIRECTIONS = 4

# --- programs -------------------------------------------------------------------------------------------------------------------------

#: Operations of a traced program, or of an unrolled loop that a sparsity pattern is read from; more are refused, as are twice as many lines
#: of emitted source. The gradient of a sum of 4999 squares, 24,997 operations, compiles in 13 s of CPU time; others would take minutes.
#: Also: new objects between two runs of Python's garbage collector while a program is compiled; with its own setting they take a fifth of
#: the time.
#: Also, as a limit: shapes of dask arrays whose chunks are remembered.
PROGRAM_OPERATIONS = 25_000
#: Turns of a loop that is rolled up, at least.
#: Also: numbers of a stack, on average, that come from one slice, as outputs of such a loop; of rows, any. Measured: 640 rows of 8 in runs
#: of two, 944 us to 114; 640 numbers in runs of 8 take 33 us, 17 one by one.
#: Also: a loop that ends by a test is compiled for each number of turns up to this one, and for any number beyond.
LOOP_TURNS = 4
#: Operations of a loop that is rolled up, at least. Measured: a relaxation's gradient of 70 operations compiles in 2.1 s to 0.6 and runs as
#: long.
REROLL_OPERATIONS = 64
#: The same for elementwise loops, which unrolled are one loop nest. Measured: unrolled, Newton's method is twice as fast at 65 operations
#: and no faster at 130; at 400 it compiles in 2 s.
REROLL_ALIGNED_OPERATIONS = 400

# --- jit ------------------------------------------------------------------------------------------------------------------------------

#: Programs of a function that are tried, newest first, before its arguments are looked at closely: each guard takes 1 us. So many
#: colourings of a sparse Jacobian are kept, too.
#: Also: calls that NumPy makes after a new path was found, before it is compiled, since each may find another. Measured: 12 paths and
#: their gradient, 6.8 s where each is compiled at once, 1.2 s.
#: Also, as a limit: attempts in a row to learn paths that find no new one.
KEPT_VARIANTS = 16
#: Share of the time since the first trace that all comparisons with the plain function may take together; `checkpoint` gives as much of a
#: sweep to digests.
COMPARISON_SHARE = 0.01
#: Seconds of one operation of plain NumPy code, as long as the function was not timed.
OPERATION_SECONDS = 5e-6
#: Elements of a container that is watched; of a longer one only the length is. Adapted modules are searched for functions in such, too.
#: Comparing as many takes 0.3 ms.
WATCHED_LENGTH = 5000
#: Objects of installed classes within one another whose attributes are watched. A limit.
WATCHED_DEPTH = 2

# --- machine code ---------------------------------------------------------------------------------------------------------------------

#: Expressions of a function; a longer one is cut into pieces of a quarter of this, as LLVM's time grows with the square of the length.
#: Measured: the gradient of 300 array operations compiles in 58 s and 378 MB to 14 s and 183 MB; a function of 3000 scalar operations is
#: emitted in 1.8 s in pieces of 2000, in 0.3 in those of 500.
#: Also: lines of LLVM code that all copies of a kernel may take; beyond, they are calls of one function. Measured: the same gradient, 18 s
#: to 14; it runs as long.
#: Also, half: operations of a small array that is written out element by element, of an expression that is computed at each use instead of
#: stored, and of all boxes of a loop nest that have loops of their own.
#: Also, times 256 bytes: LLVM code that is optimised less. Measured: the same gradient is optimised in 2.9 s to 2.0 and runs as long; the
#: gradient of a sum of 3000 numbers is emitted in 2.7 s to 1.2.
LONG_FUNCTION = 2000
#: Branches and loops within one another, of which each such level is a function of its own, since LLVM takes long for what is nested deep.
#: Measured: 40 branches within one another, 27 s to 0.5.
#: Also, three times: branches of tests with one known answer; later tests are looked at in the end, as 300 are too deep for Python's stack.
CALLED_DEPTH = 8

# --- loop nests -----------------------------------------------------------------------------------------------------------------------

#: Elements (256 kB of floats) that stay in a core's cache from one loop nest to the next. That many are in a block of a nest, in the work
#: arrays of members side by side, and at most in a value that is stored because a loop that computes another one computes most of it.
#: Also: elements of arrays that are compared as `bytes`; larger ones are compared word by word. Measured, as bytes and by words: of 8 kB,
#: 0.9 us and 3.3; of 128 kB, 7.7 and 5.9.
#: Also, as limits: pairs that `isin` compares in loops, and places that `unravel_index` has a table of.
CACHE_ELEMENTS = 1 << 15
#: Blocks of a loop nest at most. Bits depend on them, not on the number of threads.
#: Also: where members stand side by side and the last group is not full, so many groups are computed from copies. Measured: 10^6 + 1
#: products, 4.3 ms where all are copied, 1.9.
THREAD_BLOCKS = 64
#: Additions of a program (some 70 us) from which other threads take part; to wake them takes 8 us. Measured: a sum of 2^16 products,
#: 24 us by one thread, 32 by two.
#: Also, eight times: those of the members that one call computes, since interrupts are noticed between calls.
WOKEN_ADDITIONS = 1 << 20
#: Turns (about 30 us) that a waiting thread keeps its processor, as the next nest of a step comes at once; then as many turns that offer
#: it to others (a millisecond, until the next call); then it sleeps.
WAITS = 2000
#: Elements of a small array, up to a matrix of 6 x 6, which is computed without loops. Measured: POLLU's Jacobian, 1.44 us to 1.27.
#: Also: positions of an axis that are cases of their own, as where columns are stacked. Measured: POLLU, 4.4 us to 1.2.
#: Also: inputs of a Jacobian that is computed column by column. Measured: POLLU's along colours compiles in 1.2 s, in 0.4 by columns.
#: Also, half (4 x 4): a matrix that is eliminated in code without loops. Measured: 10.8 us to 1.7; the Hessian of a factor of 6 x 6
#: compiles in 0.6 s by loops, 2.9 without.
#: Also: elements of an array that becomes one of objects without a warning; to square so many objects takes 80 us, 1000 take 2 ms.
#: Also, half: additions that a store and its loads take. Compared: as many store the same values of 70 programs of the benchmarks as 20;
#: 12 and 32 store others in 10 of them.
#: Also, a quarter (3 x 3): terms of a reduction that is computed where it is read. Measured: 25.8 us to 13.4.
#: Also, a quarter: additions of two programs of a branch that are both computed, element by element. Measured on 4096 numbers, relative to
#: one program: 4 additions 0.69, 8 additions 0.82, 16 as long.
UNROLLED_ELEMENTS = 36

# --- sums -----------------------------------------------------------------------------------------------------------------------------

#: Partial sums of a reduction, a power of two. Bits depend on it, and on nothing of the machine. Shorter loops are not vectorised.
#: Measured: turbulence at 256 x 256 on two threads, 35.8 ms with 4, 20.8 with 8, 23.0 with 16.
#: Also, four times: partial sums where a term takes at most twice as many additions, which would wait for one another. Measured: a sum of
#: 10^5, 12.4 us with 8, 10.3.
#: Also, half and a quarter: steps that the two loops around the innermost one take at once, so that a value that was read serves all.
#: Measured: a neural ODE's gradient, 64 us to 48; a product of matrices, n = 16, 1.62 to 1.14.
#: Also, twice: elements of a range of indices that has a loop without conditions. Measured: a relaxation's gradient of 40 x 40, 6.4 us with
#: eight times as many, 5.7.
#: Also: members in a vector, and vectors side by side. Measured: the gradient of 1000 Runge-Kutta steps of Lorenz takes 37 us a member one
#: after the other, 6.8 with 8 side by side, 5.1 with 64.
#: Also: runs of places in an index that is known beforehand; of more, they are read from a table. Measured: 12,800 numbers in 8 runs,
#: 15.5 us by a table, 11.7; in 64 runs, their gradient 651 us to 228.
#: Also, three times: results of one loop nest, each of which takes registers and a pointer. Measured: 100 results, 2.2 ms to 1.7; lattice
#: Boltzmann's gradients, 87 ms, with twice as many 99.
LANES = 8
#: Multiplications of a product that the library makes, whose call takes 6 us. Measured, there and in loops: n = 16, 6.8 us and 1.15;
#: n = 128, 100 and 103; n = 256, 667 and 733.
LIBRARY_PRODUCTS = 1 << 18

# --- sparse ---------------------------------------------------------------------------------------------------------------------------

#: Parts of a sparsity pattern that are held apart: kinds of rows, each with a loop of its own (measured: a tridiagonal matrix of 10^5 is
#: filled in 687 us to 247), and tables of sets (100 shifted arrays added up: 294 ms one at a time, 83).
#: Also: entries to a set, on average, from which equal sets are looked for. Measured: a dense pattern of 3000, 80 ms to 16; of a ring of
#: 10^5, 70 ms where it is always done, 17.
PATTERN_PARTS = 32
#: Steps (20 ms) that colouring in two more orders may take without being asked for.
COLORING_STEPS = 2_000_000
