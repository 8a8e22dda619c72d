"""Files of people: read, guessed, written as a job by `init`."""
