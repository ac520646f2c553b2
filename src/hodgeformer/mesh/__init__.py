"""A mesh on disk and what can be said of it. NumPy, never torch."""
