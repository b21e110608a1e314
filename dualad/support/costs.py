"""Every threshold, budget and heuristic of `dualad`: its unit, what it buys, and the measurement that chose it.

Imported by name where it is used; this file imports nothing. ``python -m benchmarks.costs`` lists what can be measured again, and
``python -m benchmarks.costs NAME`` does. Limits of formats, of the platform and of an approximation's range stand where they are used.
"Off" is a threshold moved so far that it decides nothing; figures without a name are of that benchmark, least of many calls (2026-11-22).
"""

# --- arrays ---------------------------------------------------------------------------------------------------------------------------

#: bytes: smaller arrays are copied, folded into programs and held by machine code; larger ones are dropped early, and stand for each other
#: as examples while a program is traced (a gradient that holds 400 numbers: 57 us off, 50 us); larger ones to work in share memory (the
#: gradient of turbulence at 256 x 256: 6.1 ms a step off, 5.2)
SMALL_ARRAY_BYTES = 4096
#: bytes that may be taken without being asked for: by the results of a plain evaluation that are compared, by a pattern before it is dense.
#: A sixteenth of it is taken by one of several arrays: the directions of a compiled chunk (all in one, not code for each), an array that is
#: watched in a memory map, or in an object of an installed class
MEMORY_BYTES = 1 << 30
#: parts that are watched, named, counted, compared or passed one by one: elements of a container, containers within one another, places of
#: a guard, columns of a row, numbers that a function is given (a sum of 4000 numbers compiles in 11.3 s off, 2.2), numbers that are sorted
#: by counting for each how many come before it (50: 1.9 us, called 8.5; 100: 4.5 and 9.0; 200: 13.0 and 9.5)
ONE_BY_ONE = 100

# --- directions (forward mode) --------------------------------------------------------------------------------------------------------

#: bytes of one (K, n) tangent, which leave room for the temporaries of a rule in a cache of 1 or 2 MB (Burgers' dense
#: Jacobian, n = 1000: 22 ms; 102 ms with all directions at once, 63 with four). A call of twice as many does not wait until it is compiled
CHUNK_BYTES = 512_000
#: directions to a chunk however large n is, because f itself is evaluated once a chunk (a sparse Jacobian of a stencil, n = 10^6: 48 ms one
#: by one, 27); and of a chunk that tells what each takes
CHUNK_DIRECTIONS = 4

# --- programs -------------------------------------------------------------------------------------------------------------------------

#: operations of a traced program, and of a loop that patterns are read from turn by turn (the gradient of a sum of 4999 squares, of 24,997
#: operations, compiles in 13 s of CPU time; others take minutes beyond); so many shapes of dask arrays are known by their chunks. Source of
#: two lines each takes half a minute to compile: more is refused
PROGRAM_OPERATIONS = 25_000
#: turns that are at least rolled up into a loop; and up to which each number of turns of a loop that ends by a test is a path of its own:
#: it runs as fast, and knows no other number
LOOP_TURNS = 4
#: operations that are at least rolled up. Gradients of relaxations: 70 operations compile in 2.1 s unrolled, in 0.6 s rolled up, and
#: take the same time
REROLL_OPERATIONS = 64
#: operations of a program whose elementwise turns, which would share one nest, are rolled up: unrolled, Newton's method is twice as
#: fast at 65 operations, not at 130, and compiles in 2 s at 400
REROLL_ALIGNED_OPERATIONS = 400

# --- jit ------------------------------------------------------------------------------------------------------------------------------

#: programs of a function, colourings, or paths of a traced loop, that are found again before the long way is taken: each asks a guard (1
#: us). As many calls of a program that has learnt a path are made by NumPy before it is compiled, as each may learn another (12 paths and
#: their gradient: 6.8 s each compiled at once, 1.2 s)
KEPT_VARIANTS = 16
#: of the time since the first trace, for all comparisons with the plain function together; of a sweep, for digests to compare
COMPARISON_SHARE = 0.01
#: seconds of an operation in plain NumPy code, before it is known
OPERATION_SECONDS = 5e-6
#: elements of a container of which more than the length is watched, or in which the functions of an adapted module are looked for (0.3 ms)
WATCHED_LENGTH = 5000
#: objects of installed classes within each other that are looked into
WATCHED_DEPTH = 2

# --- machine code ---------------------------------------------------------------------------------------------------------------------

#: expressions of a function, beyond which it is cut into pieces of a quarter of so many, as emission takes time in proportion to the square
#: (the gradient of 300 array operations: 58 s and 378 MB off, 14 s and 183 MB; of 3000 scalar ones: emission 1.8 s in pieces of 2000, 0.3).
#: Lines of LLVM code that the copies of a kernel may take, else they share a function (the same gradient: 18 s off, 14; it runs as long).
#: Half as many operations are those of a small array that is straight code, and of an expression that is not stored: code grows with each
#: place where it is read. LLVM code of 256 bytes for each of them is optimised less (the same gradient: optimised in 2.9 s where loops are
#: unrolled, 2.0 where not; it runs as long) and emitted less (the gradient of a sum of 3000 numbers: emission 2.7 s off, 1.2)
LONG_FUNCTION = 2000
#: branches and loops in each other, of which the innermost are a function that is called: what is copied to its caller takes LLVM more than
#: in proportion to its depth (40 branches in each other: 27 s off, 0.5). Three functions deep are the branches of tests of one known
#: answer: later ones of a path ask at its end whether it was left (300 in each other are too deep for Python's stack)
CALLED_DEPTH = 8

# --- loop nests -----------------------------------------------------------------------------------------------------------------------

#: elements (256 kB of floats) that stay in a core's cache from one nest to the next; of a block of a nest in blocks, of slabs that go
#: together; of each eighth of the members side by side, and of arrays that are compared as `bytes`, not word by word (8 kB: 0.9 us, 3.3 by
#: words; 128 kB: 7.7 and 5.9)
CACHE_ELEMENTS = 1 << 15
#: blocks of a nest at most; bits depend on them, not on the number of threads. Rows of members of which a copy is made where the last one
#: is not full (10^6 + 1 products: 4.3 ms if all were, 1.9)
THREAD_BLOCKS = 64
#: additions of a program (some 70 us) from which threads are woken for it, which takes 8 us (a sum of 2^16 products: 32 us, 24 alone).
#: Eight times as many are those of the members of one call from Python: an interrupt is noticed between two
WOKEN_ADDITIONS = 1 << 20
#: turns in which a thread that waits for another keeps its processor (about 30 us: between the nests of a step it is there at once), then
#: as many in which it offers it to others (a millisecond: it is there for the next call), before it sleeps
WAITS = 2000
#: elements of a small array, up to a matrix of 6 x 6, each of which is written out: in straight code (POLLU's Jacobian 1.44 us off, 1.27),
#: in slabs along an axis, each a case of its own (POLLU: 4.4 us off, 1.2), and among the inputs of a Jacobian that is computed column by
#: column (POLLU's along colours compiles in 1.2 s, 0.4). Half as many, 4 x 4, of a matrix that is eliminated (10.8 us off, 1.7; the Hessian
#: of a factor of 6 x 6 compiles in 0.6 s off, 2.9). A quarter of as many terms has a reduction that is written out where it is read: a
#: window of 3 x 3 (25.8 us off, 13.4); so many additions take both programs of a branch that are computed, so that its elements are
#: selected in the loops around it (4096 numbers: 4 take 0.69 of the time of one program, 8 0.82, 16 as long)
UNROLLED_ELEMENTS = 36

# --- sums -----------------------------------------------------------------------------------------------------------------------------

#: partial sums of a reduction: bits depend on it, and on nothing of the machine; an innermost loop of fewer elements is not vectorised, and
#: an element that is computed without vectors takes as many additions as they would make (turbulence at 256 x 256 on two threads: 35.8 ms
#: at 4, 20.8 at 8, 23.0 at 16). Where terms of at most twice as many additions are added, eight would wait for each other: there are up to
#: four times as many (a sum of 10^5: 12.4 us with 8, 10.3), and half as many steps of the last loop but one are taken at once, a quarter of
#: a loop around: each value that is read serves all of them (a neural ODE's gradient 64 us off, 48; a product of matrices, n = 16, 1.62 and
#: 1.14). Vectors of so many members stand side by side, at most as many vectors (the gradient of 1000 Runge-Kutta steps of Lorenz takes
#: 37 us a member one after the other, 6.8 with 8 side by side, 5.1 with 64). A nest has three times as many roots at most: each has
#: registers and pointers of its own (100 results: 2.2 ms off, 1.7; lattice Boltzmann's gradients 87 ms, with twice as many 99)
LANES = 8
#: multiplications of a product that is left to the library, which takes 6 us to call (n = 16: 6.8 us there, 1.15; n = 128: 100 and 103;
#: n = 256: 667 and 733)
LIBRARY_PRODUCTS = 1 << 18

# --- sparse ---------------------------------------------------------------------------------------------------------------------------

#: parts of a pattern that are held apart: kinds of rows of one loop each (a tridiagonal matrix of 10^5 filled: 687 us off, 247), tables
#: that the set of an element is read from (100 rolls added up: 294 ms one at a time, 83), entries of sets before equal ones are looked for
#: (a dense pattern of 3000: 80 ms off, 16; of a ring of 10^5: 70 ms always, 17)
PATTERN_PARTS = 32
#: steps that colouring in two more orders may take without being asked for (20 ms)
COLORING_STEPS = 2_000_000
