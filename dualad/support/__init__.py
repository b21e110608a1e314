"""Utilities without derivatives: callers, argument checks, byte sizes, progress, executors."""
