"""Couplings: in which order units take a step, and what each knows of the others meanwhile."""
