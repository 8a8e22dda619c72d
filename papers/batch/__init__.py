"""Solvers that need all rows at hand, as functions: what the papers compare the learners with."""
