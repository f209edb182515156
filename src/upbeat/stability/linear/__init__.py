"""Programs on linear forms: what a step does to small deviations, as a matrix."""
