"""Spectral eigenfunction decomposition: maps onto the leading eigenfunctions of a kernel, batch and incremental."""
