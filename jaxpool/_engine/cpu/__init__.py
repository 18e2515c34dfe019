"""Lowerings for the CPU, chosen by timing them, with the measurements."""
