"""What `init` told, for every file about it."""

from tests.cli.init_told import told

__all__ = ["told"]
