"""Helpers for all kinds of tests: how they compile, which part they run in, how derivatives are checked."""
