"""Kernels on bare tensors; they have never heard of a mesh."""
