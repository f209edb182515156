"""Verdicts on coupled scenarios: how stable, up to which step, and what else would be."""
