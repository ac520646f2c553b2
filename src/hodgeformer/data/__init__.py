"""Where meshes and labels come from."""
