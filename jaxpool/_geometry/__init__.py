"""Where windows are: their sizes, padding and bins, as Python integers. Evaluates nothing, and imports nothing else."""
