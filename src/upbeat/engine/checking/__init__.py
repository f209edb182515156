"""What is looked at before a run: what may go wrong, and what units declare wrongly."""
