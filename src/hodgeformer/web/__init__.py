"""HTTP: predictions for programs, and the viewer."""
