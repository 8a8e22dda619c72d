"""Kernel adaptive filters: regression on an expansion over samples that are stored because they are novel."""
