"""What a schedule costs: `compare`, `profile`, `draw`, as tables and pictures."""
