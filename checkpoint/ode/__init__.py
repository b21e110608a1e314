"""Solutions of ordinary differential equations: SciPy chooses the steps, and the accepted ones are one `chain`."""
