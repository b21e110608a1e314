"""Workloads: peers side by side in one run, as ratios to the plain primal; see README.md."""
