"""Files of people: read as records, and guessed at for a first job."""
