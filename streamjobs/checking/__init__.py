"""From a job file's contents to its settings: everything that is wrong is found at once, one sentence each with its place.

Pure: the command line reads the file and passes the environment.
"""

from streamjobs.checking.collect import settings_from

__all__ = ["settings_from"]
