"""Restarting after a kill: folder, log, journal, `Fit`. It wraps a sweep."""
