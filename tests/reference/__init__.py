"""The definition of every pool in float64 NumPy: where its windows are, and their values."""
