"""Decodes the bytes of records to samples; a record that cannot be used gets the reason for its dead letter."""
