"""Lowerings for the CPU, chosen by timing them, with what was measured."""
