"""Properties of all functions: one file each, run over the registry."""
