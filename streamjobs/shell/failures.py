"""Failures of delivery: the worker stops, nothing more is acknowledged, and a restart repeats at most one checkpoint."""

from streamjobs.errors import StreamjobsError


class DeliveryError(StreamjobsError):
    """Something could not be written that has to be there before the input counts as done."""


class FencedError(DeliveryError):
    """Another worker has taken the partition over: what this one still held of it is worthless, and was not written."""


class TimeoutAtStop(DeliveryError):
    """The last checkpoint did not come through in time."""
