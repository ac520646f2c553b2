"""Pictures of meshes: pixels without a display, one self-contained page."""
