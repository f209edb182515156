"""Results: recording rows into chunks, result files, and the trace that a user gets back."""
