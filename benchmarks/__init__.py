"""Measurements of jaxpool beside plain JAX: `python -m benchmarks` prints a table and saves it under results/."""
