"""Checkpoints: the state of a run in a file, made when due, and checked before anything goes on from it."""
