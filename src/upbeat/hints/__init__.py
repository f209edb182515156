"""Hints: what engineers know about a system, and the masters that follow from it."""
