"""Properties: what a result should be like, in signal temporal logic, and by how much it is or is not."""
