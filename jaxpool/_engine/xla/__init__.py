"""Lowerings for GPUs and TPUs, where a map should be one loop over its results that reads every array once."""
