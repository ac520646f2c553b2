"""The parts of the web viewer's server; `hodgeformer.view.app` puts them together."""
