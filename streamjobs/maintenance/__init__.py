"""States and dead letters beside the workers: read, compared, changed."""
