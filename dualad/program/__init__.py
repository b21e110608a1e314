"""Programs: what a function computes, as a flat list of operations that is traced once, optimised and compiled."""
