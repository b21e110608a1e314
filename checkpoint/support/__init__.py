"""Utilities that know no schedule: argument checks, tables, thresholds."""
