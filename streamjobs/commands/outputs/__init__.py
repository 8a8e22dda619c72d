"""Commands about what a job sends."""
