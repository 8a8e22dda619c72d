"""Drift detectors: each watches one number per row, in a small bounded state per key."""
