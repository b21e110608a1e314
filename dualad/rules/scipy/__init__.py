"""SciPy's functions that are no ufuncs, by name: values are SciPy's, derivatives come from bodies and rules written here."""
