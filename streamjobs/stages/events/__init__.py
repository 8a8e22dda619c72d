"""Stages that make events of a key's rows: bouts of an activity, keys that are silent, columns that are stuck."""
