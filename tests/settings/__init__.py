"""The job file: sections, rules, environment; its mistakes."""
