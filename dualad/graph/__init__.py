"""Programs, the operations of a function as data: `Symbol` traces into a `Program`; passes, rolled up loops, derivatives of programs."""
