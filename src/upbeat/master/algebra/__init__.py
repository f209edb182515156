"""Algebraic loops: cut open, solved, judged."""
