"""Reads the schemas of records from a schema registry or from files, for the decoders, which ask no one."""
