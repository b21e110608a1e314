"""What outlives the process: folder, log, journal, `Fit`. It wraps a sweep."""
