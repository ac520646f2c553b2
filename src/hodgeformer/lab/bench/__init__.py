"""Measurements of speed and memory: functions that return numbers, printed by `hodgeformer bench`."""
