"""Loop nests as source, as LLVM code, and the way into machine code from Python."""
