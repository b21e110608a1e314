"""In these tests LLVM compiles only where they say so, and optimises nothing; what jit gives to the backend "llvm" is run by Python."""

from interpreted import no_compiler, no_optimiser  # noqa: F401  (fixtures)
