"""Live states of one partition: a slot per key in the stages' workspaces, bounded by bytes."""
