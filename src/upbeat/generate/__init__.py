"""Generating code: a plan printed as C, which runs as an engine here and by itself elsewhere."""
