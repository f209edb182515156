"""Systems of two modes in the plane, and how late they may switch."""
