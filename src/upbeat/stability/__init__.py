"""Stability: what can be proven about a program and its steps before it runs."""
