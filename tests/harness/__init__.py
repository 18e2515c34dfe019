"""Helpers for all kinds of tests: how they compile, and how derivatives are checked."""
