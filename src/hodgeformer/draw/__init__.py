"""Pictures of meshes, rendered without a display, and a self-contained HTML page."""
