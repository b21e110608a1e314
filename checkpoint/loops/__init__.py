"""`chain`: the loop that a program differentiates through, eager, compiled, traced."""
