"""What `init` told, for every file about it."""

from tests.recordings.init_told import told

__all__ = ["told"]
