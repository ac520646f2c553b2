"""Trained models that come with the package: NAME.safetensors and its card NAME.md."""
