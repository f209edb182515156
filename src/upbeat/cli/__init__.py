"""The command line: `upbeat run`, `check`, `explain` and `plot`."""
