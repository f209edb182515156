"""Semantic adaptations: other behaviour for units that stay as they are (thesis, chapter 7)."""
