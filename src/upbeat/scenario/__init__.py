"""Scenarios: models, the connections between them, their graph, and the files that describe them."""
