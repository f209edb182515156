"""The command line: a module for each command, loaded when it is called, and what they share."""
