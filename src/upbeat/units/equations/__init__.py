"""Units given by equations, and what can be made of equations."""
