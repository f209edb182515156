"""Paces: how far the next step goes, why, and whether it stands."""
