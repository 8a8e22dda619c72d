"""Errors that users see. Each message says who, what is wrong, what was expected, what came, and what to do."""

import errno
from collections.abc import Sequence

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StreamjobsError(Exception):
    """Base of all declared errors; `exit_code` is the exit code of the command."""

    exit_code = 1


class ConfigError(StreamjobsError):
    """A mistake in settings or usage, found before anything is consumed; `problems` has one sentence for each."""

    exit_code = 2

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


def unwritable(place: str, error: OSError) -> StreamjobsError:
    """For a file or folder that the user named: ConfigError, but on a full disk exit code 1: the command was right."""
    return (StreamjobsError if error.errno in FULL else ConfigError)(f"{place}: cannot be written ({error.strerror}).")


class SetupError(StreamjobsError):
    """The environment is not ready: no broker, a missing topic or right, a wrong partition count."""

    exit_code = 3


class MismatchError(StreamjobsError):
    """A verification found numbers that differ from the expected ones."""

    exit_code = 4


class SnapshotError(StreamjobsError):
    """A key's stored bytes cannot be used: a worker sets the key aside, and overwrites nothing."""


class ForeignStateError(SnapshotError):
    """Stored bytes are intact and belong to another job or release, which concerns all keys: the worker stops."""


class NothingLearned(StreamjobsError):
    """Records came, and not one of them could be learned from."""


class RecordError(StreamjobsError):
    """One record cannot be used: it goes to the dead-letter topic and the job goes on.

    `reason` is one of `REASONS`, a label of counters; `stage` is where the problem was found.
    """

    def __init__(self, reason: str, message: str, stage: str = "decode") -> None:
        self.reason, self.stage = reason, stage
        super().__init__(message)


REASONS = (
    "no_key",  # the record has no key
    "long_key",  # the key is longer than the limit
    "headers",  # too many, or too large
    "batch",  # a whole batch of records that cannot be unpacked
    "too_large",  # too many bytes or samples
    "schema",  # the schema registry does not have the record's schema, or the schema cannot be used
    "malformed",  # not decodable in the declared format
    "missing_field",  # a declared field is missing or null
    "wrong_value",  # a declared field has another type, such as a text instead of a number, or an unlisted category
    "wrong_dimension",
    "not_finite",
    "out_of_range",  # |x| beyond the limit
    "bad_time",  # no usable event time
    "future",
    "unknown_sensor",  # with [source.sensors]
    "late",  # with [source] late = "dlq"
    "bad_label",
    "too_many_classes",
    "unmatched_label",  # a late label for which no row waits
    "state",  # the key's state cannot be read, or cannot be written
    "learner_failed",  # the learner or another stage raised an error; the key keeps its state from before the record
)
