"""Errors that end a worker or one of its partitions, and their line. A restart repeats at most one checkpoint."""

import traceback
from pathlib import Path
from typing import Any

from aiokafka import errors
from aiokafka.errors import KafkaError

from streamjobs.errors import StreamjobsError

# Errors of a transactional producer after another one with its id was opened, or its transaction was open for too long.
FENCED = (
    errors.ProducerFenced,
    errors.InvalidProducerEpoch,
    errors.UnknownProducerId,
    errors.IllegalOperation,
    errors.ProducerClosed,
)

EXPIRED = (
    "the broker has forgotten this worker's transactional id: transactional.id.expiration.ms (7 days by default) is below "
    "2 hours, or the worker was frozen for longer. Nothing is lost: a start continues from the last checkpoint."
)
# Errors of reading, see `Watchdog.cause_of`.
REFUSED = (errors.TopicAuthorizationFailedError, errors.GroupAuthorizationFailedError)


class DeliveryError(StreamjobsError):
    """Something could not be written that must be there before the input is acknowledged."""


class FencedError(DeliveryError):
    """Another worker has taken the partition over; what this one still held of it was not written and does not count."""


class RecordsReplaced(DeliveryError):
    """The input has other records at offsets that were read before."""

    exit_code = 3


class TimeoutAtStop(DeliveryError):
    """The last checkpoint did not finish in time."""


def failure_line(error: BaseException) -> str:
    """One line for stderr. A declared error already says what to do; of any other, only type and place are shown.

    The message of an unexpected error may quote a record, so it is shown with --debug only.
    """
    if isinstance(error, StreamjobsError):
        return str(error)
    text = f" ({error})" if isinstance(error, (KafkaError, OSError)) else ""
    return (
        f"the worker stopped on {with_place(error)}{text}. Nothing is lost: a restart continues from the last checkpoint. "
        "--debug shows the traceback."
    )


def exit_code(error: BaseException) -> int:
    return error.exit_code if isinstance(error, StreamjobsError) else 1


def reason(error: Exception) -> str:
    """What the client library says, and the underlying error where the library only calls it unexpected."""
    cause, text = error.__cause__, str(error) if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
    if cause is None:
        return text
    return f"{text}, on {cause if isinstance(cause, KafkaError) else with_place(cause)}"


def is_passing(error: BaseException) -> bool:
    """Whether a broker did not answer in time, or said to ask again. A worker that was frozen meets it when it wakes up."""
    return bool(getattr(error.__cause__ if isinstance(error, DeliveryError) else error, "retriable", False))


def has_expired(error: BaseException, producer: Any = None) -> bool:
    """Whether the broker has forgotten the transactional id of an idle producer. producer: the one that raised it."""
    sender = getattr(producer, "_sender", None)
    task = sender.sender_task if sender is not None and isinstance(error, errors.IllegalOperation) else None
    if task is not None and task.done() and not task.cancelled():  # it failed before
        error = task.exception() or error
    return isinstance(error.__cause__ or error, errors.InvalidProducerIdMapping)


def with_place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return type(error).__name__ + (f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "")
