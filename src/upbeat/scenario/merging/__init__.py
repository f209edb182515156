"""Scenarios with fewer units and the same meaning: nests inlined, equations merged into one unit."""
