"""Reverse mode: the tape, its entries, the verbs, streams."""
