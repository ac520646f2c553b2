"""What the paper measures, and more: operators, robustness, ablations, efficiency. Functions that return numbers."""
