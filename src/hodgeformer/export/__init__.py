"""Trained models for other run-times: as ONNX, and as a program of torch.export."""
