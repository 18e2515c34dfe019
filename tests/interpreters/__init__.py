"""Interpreters of JAX programs other than its own, over pools inside `jaxpool.portable()`."""
