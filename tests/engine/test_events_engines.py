"""Events in corners, on both engines: payloads of all kinds, inputs set by hand, rejected steps, couplings."""
