"""Judging results: variants of an experiment, how far apart their traces are, and what that says."""
