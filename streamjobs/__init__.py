"""streamjobs: per-key online kernel learners over Kafka topics.

`from streamjobs import Job` is the way in from Python; it is imported when it is first asked for.
"""

import importlib

__version__ = "0.3.0"

_LATE = {"Job": "streamjobs.notebook.job"}  # attribute -> its module


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)
