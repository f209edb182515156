"""The vocabulary every other layer shares: ports, values, time, expressions, abilities, errors."""
