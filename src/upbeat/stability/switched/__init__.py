"""Switched systems: sequences of steps of several kinds, proofs about them, and what to forbid."""
