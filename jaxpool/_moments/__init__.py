"""Means with weights of another array, and variances: merged from those of parts of windows, with derivatives."""
