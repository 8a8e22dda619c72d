"""The live states of a partition's keys: arrays of all keys, read from snapshots, written as snapshots, undone."""
