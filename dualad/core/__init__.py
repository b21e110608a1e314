"""Levels, traced values (protocols, aliasing), dispatch, methods, conversions."""
