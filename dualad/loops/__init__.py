"""Programs lowered to loop nests: index maps, reductions, fusion."""
