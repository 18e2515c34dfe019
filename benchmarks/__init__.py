"""Measurements of jaxpool against plain JAX, Flax, PyTorch and the copy limit: `python -m benchmarks`."""
