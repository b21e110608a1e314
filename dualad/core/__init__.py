"""Levels, traced values (protocols, aliasing), the one door, methods, conversions."""
