"""Events between units, in a program: conditions, instants, and what the log tells."""
