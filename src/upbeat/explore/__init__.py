"""Exploring: studies of many runs of one experiment, and the answers that come from them."""
