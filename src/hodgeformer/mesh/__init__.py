"""Meshes and their geometry, in NumPy and never in torch."""
