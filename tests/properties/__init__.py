"""What holds for all functions: a file per property, run over the registry."""
