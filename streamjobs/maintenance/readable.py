"""Finds keys with states that a worker would set aside, in the changelog; at the speed at which a worker reads states."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.kafka import client, reader, topics
from streamjobs.maintenance.copies import Place, printable, short_key

AT_ONCE = 500  # states
ROOM = 1 << 40  # bytes; only AT_ONCE states are held at a time
LOOKED_AT = 100  # of the newest states, for one that another job wrote
EXAMPLES = 3  # keys that a sentence names


def unreadable(job: Job, records: Iterable[Stored]) -> tuple[dict[Place, str], int, bytes]:
    """Places of the newest states, among these records of a changelog, that cannot be read, and why; how many these are.

    Also the last state that can be read, b"" if there is none. Raises ForeignStateError for a state of another job.
    """
    found: dict[Place, str] = {}
    read, last = 0, b""
    for batch in _batches(iter(records)):
        read += len(batch)
        newest = {(one.partition, one.key or b""): one.value for one in batch}
        for place in newest:
            found.pop(place, None)
        stored = {b"%d %s" % place: value for place, value in newest.items() if value}
        places = dict(zip(stored, (place for place, value in newest.items() if value), strict=True))
        live = Live(job, stored.get, most_bytes=ROOM)
        live.tick()
        live.enter(list(stored))
        found |= {places[name]: verdict.why for name, verdict in live.aside.met.items()}
        last = next((value for place, value in reversed(newest.items()) if value and place not in found), last)
    return found, read, last


def require_own_states(job: Job, key: str) -> None:
    """Raises ForeignStateError where the newest states of keys other than `key` are of another job, or of other settings.

    A state written with these settings would differ from theirs, and end the workers of both.
    """
    settings = job.settings
    missing = client.NOT_MADE.format("[job] name")
    newest = reader.newest(settings.broker, topics.changelog(settings), LOOKED_AT, time.monotonic(), missing=missing)
    unreadable(job, [record for record in newest if record.key and printable(record.key) != key])


def first_records(records: Iterable[Stored], most: int, most_bytes: int) -> Iterator[Stored]:
    """The first records, at most so many, until their values have so many bytes."""
    left = most_bytes
    for record in islice(records, most):
        if left <= 0:
            return
        left -= len(record.value or b"")
        yield record


def _batches(records: Iterator[Stored]) -> Iterator[list[Stored]]:
    while batch := list(islice(records, AT_ONCE)):
        yield batch


def sentence(found: dict[Place, str]) -> str:
    """What `check --online` says of these keys."""
    names = ", ".join(f"{short_key(key)!r}[{partition}]" for partition, key in list(found)[:EXAMPLES])
    more = f" and {len(found) - EXAMPLES:,} more" if len(found) > EXAMPLES else ""
    return (
        f"the states of {len(found):,} {'key' if len(found) == 1 else 'keys'} cannot be read ({names}{more}); workers set "
        "such keys aside, and their records become dead letters. 'streamjobs state verify JOB' says why and what to do."
    )
