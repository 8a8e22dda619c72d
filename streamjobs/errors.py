"""The errors people meet. Each message says who, what is wrong, what was expected, what came, and what to do."""

from collections.abc import Sequence


class StreamjobsError(Exception):
    """Base of every declared error; `exit_code` is what a command ends with."""

    exit_code = 1


class ConfigError(StreamjobsError):
    """The operator's mistake, found before anything is consumed; `problems` has one sentence each."""

    exit_code = 2

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class SetupError(StreamjobsError):
    """The world around is not ready: no broker, a missing topic or right, a wrong partition count."""

    exit_code = 3


class MismatchError(StreamjobsError):
    """A verification found other numbers than expected."""

    exit_code = 4


class SnapshotError(StreamjobsError):
    """Stored bytes cannot be trusted or belong to another job; the worker stops and overwrites nothing."""


class RecordError(StreamjobsError):
    """One record cannot be used: it goes to the dead-letter topic and the job goes on.

    `reason` is a bounded word for counters (see `REASONS`), `stage` where it was found.
    """

    def __init__(self, reason: str, message: str, stage: str = "decode") -> None:
        self.reason, self.stage = reason, stage
        super().__init__(message)


REASONS = (
    "no_key",  # the record has no key
    "long_key",  # a key beyond the limit
    "headers",  # more of them than the limit, or larger ones
    "batch",  # a whole batch of records that cannot be unpacked
    "too_large",  # bytes or samples beyond the limit
    "malformed",  # not decodable in the declared format
    "missing_field",  # a declared field is absent or of another type
    "wrong_dimension",
    "not_finite",
    "out_of_range",  # |x| beyond the limit
    "bad_time",  # no usable event time
    "future",
    "late",  # where `late = "dlq"`
    "bad_label",
    "too_many_classes",
    "unmatched_label",  # a label alone that met no waiting row of its time
)
