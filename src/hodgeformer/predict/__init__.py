"""Prediction: load a model once; mesh in, labels and probabilities out, on the original mesh."""
