"""Pools compiled for GPUs and TPUs: programs compiled ahead of time on a machine that has neither."""
