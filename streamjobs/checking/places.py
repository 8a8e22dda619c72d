"""Where a setting was written, for the beginning of every sentence about it."""

from collections.abc import Mapping
from typing import NamedTuple

Path = tuple[str, ...]  # section, then names of settings


class Places(NamedTuple):
    """The job file, and which settings came from the environment instead."""

    origin: str  # the job file as the operator named it
    variables: Mapping[Path, str]  # path of a setting -> environment variable it came from

    def of(self, path: Path) -> str:
        """The beginning of a sentence about the setting at `path`.

        >>> Places("job.toml", {}).of(("learner", "rank"))
        'job.toml [learner]: '
        >>> Places("job.toml", {("learner", "rank"): "STREAMJOBS_LEARNER__RANK"}).of(("learner", "rank"))
        'environment STREAMJOBS_LEARNER__RANK: '
        """
        for length in range(len(path), 1, -1):
            if path[:length] in self.variables:
                return f"environment {self.variables[path[:length]]}: "
        return f"{self.origin} [{path[0]}]: "
