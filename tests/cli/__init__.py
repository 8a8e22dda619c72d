"""The job file's checks, the commands, replay and the demo."""
