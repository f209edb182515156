"""The parts of the engine: each module says what one of them consists of, as data for a scenario file."""
