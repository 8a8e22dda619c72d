"""Files with recordings: read as records, and their columns guessed for a first job file."""
