"""Derivatives that families share: the mechanism, selected, weighted and summed cells, and arithmetic at limits."""
