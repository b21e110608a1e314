"""Rows for modules of ``scipy.spatial``."""
