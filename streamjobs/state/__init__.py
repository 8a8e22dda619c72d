"""What the keys' snapshots say and how they are renewed, and what dead letters say: plain functions over bytes, no I/O."""
