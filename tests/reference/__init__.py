"""What every pool is, in float64 NumPy, from the definitions alone: where windows lie and what is made of them."""
