"""Random calls, of all functions with all of their arguments together, against the reference."""
