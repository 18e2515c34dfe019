"""What JAX is told of pools: the primitive, linear maps and rules, the platform, and what keeps steps apart."""
