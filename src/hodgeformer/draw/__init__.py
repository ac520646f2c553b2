"""Pictures of meshes: pixels without a display, and one self-contained page."""
