"""Measurements of jaxpool beside plain JAX, Flax, PyTorch and the copy limit: `python -m benchmarks`."""
