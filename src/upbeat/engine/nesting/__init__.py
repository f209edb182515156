"""Scenarios inside scenarios: flattened where that means the same, run as units where not."""
