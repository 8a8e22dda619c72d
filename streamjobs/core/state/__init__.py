"""The formats of stored states: snapshots, other jobs' snapshots that may be read, and the shared population."""
