"""The job file: its sections, the rules between them, what a job is composed of. Pure: others read files and environment."""
