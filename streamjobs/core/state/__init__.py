"""The states of a partition's keys: live as arrays, stored as snapshots, validated, migrated; and the shared population."""
