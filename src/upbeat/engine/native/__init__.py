"""The native engine: programs as tables, run by the C++ core."""
