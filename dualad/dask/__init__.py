"""Arrays of dask, a level below all: lazy, larger than memory."""
