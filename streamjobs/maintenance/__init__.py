"""Reads, compares and changes states and dead letters, beside the workers."""
