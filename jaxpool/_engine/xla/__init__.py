"""Lowerings for GPUs and TPUs, where a map should be a single loop over its results that reads every array once."""
