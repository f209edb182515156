"""Masters: programs and paces. A master is data: coupling × pace × input approximation."""
