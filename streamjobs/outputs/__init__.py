"""What leaves a job, for those who read it: schemas of the output topics, and their records as files."""
