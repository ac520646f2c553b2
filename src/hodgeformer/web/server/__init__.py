"""Programs and pages over HTTP, within limits: who may ask, what is taken in, and predictions for programs."""
