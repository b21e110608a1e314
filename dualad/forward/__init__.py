"""Forward mode: `Dual` is value + tangent(s) + level; K directions; pushing tangents through a function."""
