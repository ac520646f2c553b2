"""The border: NumPy meshes in, one block-diagonal complex of tensors out."""
