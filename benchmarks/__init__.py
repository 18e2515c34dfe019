"""Measurements of jaxpool beside plain JAX, Flax, PyTorch and a copy of the array: `python -m benchmarks`."""
