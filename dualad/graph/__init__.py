"""What a function computes, as data: `Symbol` traces it into a `Program`; passes, loops rolled up again, derivatives of programs."""
