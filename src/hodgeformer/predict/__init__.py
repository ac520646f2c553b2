"""Prediction: load a model once, then predict labels and probabilities on the original meshes."""
