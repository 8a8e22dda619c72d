"""What `init` printed, for every file about it."""

from tests.recordings.init_told import printed

__all__ = ["printed"]
