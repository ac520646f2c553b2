"""Measurements: studies of the paper and benchmarks. Only the command line imports it."""
