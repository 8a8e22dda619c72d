"""Tries simple learners, and the usual one, on a sample with numbers to predict: `init` proposes the best."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streamjobs.commands.console import note
from streamjobs.commands.recordings.trial import environment, records_to_try
from streamjobs.errors import ConfigError

if TYPE_CHECKING:
    from streamjobs.recordings.guess.result import Guess
    from streamjobs.recordings.tables import How

CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "rls": {"name": "rls", "intercept": True, "task": "regression"},
    "krls": {"name": "krls", "budget": 100, "task": "regression"},
}
LEAST = 200  # records of the sample, to choose by


class Best(NamedTuple):
    """A learner that is better than the job file's: its section, and a line with all errors."""

    section: Mapping[str, Any]
    line: str


def best_learner(file: Path, sample: Path, guessed: "Guess", how: "How") -> Best | None:
    """Of CANDIDATES; None where the file's learner stays. Each label is predicted before it is learned.

    The second half of each key's labels counts.
    """
    from streamjobs.job_files import composing, read_job, read_table
    from streamjobs.replay.comparing import OWN, compare

    table = read_table(file)
    tables = {OWN: table}
    for name, section in CANDIDATES.items():
        tables[name] = {part: value for part, value in table.items() if part != "head"} | {"learner": dict(section)}
    errors: dict[str, float] = {}
    try:
        records = list(records_to_try(read_job(file, environment(guessed)).settings, sample, guessed, how))
        if len(records) < LEAST:
            return None
        note("trying learners on the sample ...")
        for name, one in tables.items():
            done = compare(one, composing(file, environment(guessed)), records, (OWN,), lambda name: None)
            errors[name if name in CANDIDATES else done.learners[0].model] = done.learners[0].half or float("inf")
    except ConfigError as error:
        note(f"learners were not tried: {error}")
        return None
    without = ", ".join(f"{one.name} {one.half:.3g}" for one in done.controls if one.half is not None)
    tried = ", ".join(f"{name} {error:.3g}" for name, error in errors.items())
    line = f"rmse in the second half of the sample: {tried}; without a model: {without}"
    note(line)
    best = min(errors, key=lambda name: errors[name])
    return Best(CANDIDATES[best], line) if best in CANDIDATES else None
