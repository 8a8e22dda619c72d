"""Slow, plain references: the papers' pseudo-code written to be read."""
