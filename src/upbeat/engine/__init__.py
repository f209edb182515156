"""Engines: they run programs. `interpret` is the reference, `native` the C++ core; both mean the same."""
