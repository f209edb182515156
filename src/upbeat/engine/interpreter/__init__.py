"""The reference engine: instructions one by one, in Python."""
