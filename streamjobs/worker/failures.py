"""Failures of delivery: the worker stops, nothing more is acknowledged, and a restart repeats at most one checkpoint."""

import traceback
from pathlib import Path

from aiokafka.errors import (
    IllegalOperation,
    InvalidProducerEpoch,
    KafkaError,
    ProducerClosed,
    ProducerFenced,
    UnknownProducerId,
)

from streamjobs.errors import StreamjobsError

# What a transactional producer meets after another one of its id was opened, or its transaction was open for too long.
FENCED = (ProducerFenced, InvalidProducerEpoch, UnknownProducerId, IllegalOperation, ProducerClosed)


class DeliveryError(StreamjobsError):
    """Something could not be written that has to be there before the input counts as done."""


class FencedError(DeliveryError):
    """Another worker has taken the partition over: what this one still held of it is worthless, and was not written."""


class TimeoutAtStop(DeliveryError):
    """The last checkpoint did not come through in time."""


def failure_line(error: BaseException) -> str:
    """One line for stderr. A declared error says itself what to do; of others only type and place are told.

    Their message may quote a record; it is shown with --debug.
    """
    if isinstance(error, StreamjobsError):
        return str(error)
    text = f" ({error})" if isinstance(error, (KafkaError, OSError)) else ""
    return (
        f"the worker stopped on {_placed(error)}{text}. Nothing is lost: a restart continues from the last checkpoint. "
        "--debug shows the whole story."
    )


def exit_code(error: BaseException) -> int:
    return error.exit_code if isinstance(error, StreamjobsError) else 1


def reason(error: Exception) -> str:
    """What the client library says; where it only says that something unexpected happened, also what that was."""
    cause, text = error.__cause__, str(error) if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
    if cause is None:
        return text
    return f"{text}, on {cause if isinstance(cause, KafkaError) else _placed(cause)}"


def _placed(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return type(error).__name__ + (f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "")
