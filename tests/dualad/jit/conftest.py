"""In these tests LLVM compiles only where they say so; what jit gives to the backend "llvm" is run by Python."""

from interpreted import no_compiler  # noqa: F401  (a fixture)
