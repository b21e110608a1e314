"""What knows no derivative: callers, checks, byte sizes, progress, executors."""
