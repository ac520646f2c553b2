"""The training loop, and the scores of predictions."""
