"""Who may import whom, held by a walk over every import."""
