"""Forward mode: `Dual` is value + tangent(s) + level; K directions; what pushes tangents through a function."""
