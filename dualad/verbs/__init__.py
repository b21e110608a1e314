"""`derivative`, `jacobian`, `gradient`, `hessian`, `jacobian_columns`, `implicit`, `explain_nan`."""
