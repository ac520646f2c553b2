"""The web viewer: a page, and a small server beside it; `hodgeformer.viewer.app` puts the parts together."""
