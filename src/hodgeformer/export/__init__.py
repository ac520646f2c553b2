"""Trained models as ONNX graphs."""
