"""Judging and showing results: explanations, summaries, pictures."""
