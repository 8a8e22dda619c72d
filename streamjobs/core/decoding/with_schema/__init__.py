"""Formats whose values need a schema: which one a value names, and the decoders of those that are known."""
