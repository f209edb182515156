"""What inputs do between communication points: held, extrapolated, interpolated."""
