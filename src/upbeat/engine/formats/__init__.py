"""Experiments from files, and back: scenario files, FMUs alone, SSPs."""
