"""Everything that is wrong with a job file, found at once: each problem is one sentence with its place.

`check(table, env, origin)` gives the settings, or the problems. Pure: the command line reads the file and passes the
environment.
"""

from streamjobs.checking.collect import check

__all__ = ["check"]
