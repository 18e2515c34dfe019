"""Ranks of cells in windows: medians, quantiles and the k largest, what selects them, and their derivatives."""
