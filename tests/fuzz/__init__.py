"""Hostile bytes for everything that decodes: records, states, populations, copies, job files, dead letters."""
