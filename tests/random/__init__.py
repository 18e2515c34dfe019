"""Calls drawn at random, from all functions and all of their arguments together, against the reference."""
