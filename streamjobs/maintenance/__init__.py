"""Reads, compares and changes states and dead letters, next to the workers."""
