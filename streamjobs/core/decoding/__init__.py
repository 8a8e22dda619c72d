"""A record's bytes become samples, or a dead letter's reason."""
