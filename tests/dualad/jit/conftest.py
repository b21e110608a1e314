"""In these tests numba compiles only where they say so; what jit gives to the backend numba is run by Python."""

from interpreted import no_compiler  # noqa: F401  (a fixture)
