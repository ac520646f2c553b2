"""Predictions over HTTP, and what the viewer shares with them: access control, limits on uploads and connections."""
