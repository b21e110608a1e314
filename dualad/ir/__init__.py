"""The loop IR: programs of loops over arrays as data, which `codegen` builds, prints as Python and translates to machine code."""
