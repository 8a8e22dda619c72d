"""Programs that each run in an environment of their own, as scripts."""
