"""The population learned from recordings: reading, protocol, report, files."""
