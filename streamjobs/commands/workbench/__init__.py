"""Commands for a job at the desk: its settings, and exports and pictures of its outputs."""
