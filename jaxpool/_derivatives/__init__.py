"""Derivatives that families share: the mechanism, what is selected, weighted or summed, and arithmetic of its own."""
