"""The web viewer: a page, and a small server beside it; `hodgeformer.web.viewer.app` puts the parts together."""
