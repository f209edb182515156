"""Solvers: how the states of a unit get from one communication point to the next."""
