"""The page docs/evidence.md: every number that was asked for, and what was reached, by our own scripts."""
