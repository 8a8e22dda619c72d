"""Formats that need a schema: which schema a value names, and the decoders of the known schemas."""
