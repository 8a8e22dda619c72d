"""Verifies the snapshots of a changelog: whether a worker can read them."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import load_snapshot
from streamjobs.core.messages import Stored
from streamjobs.errors import SnapshotError
from streamjobs.kafka import client, reader, topics
from streamjobs.maintenance.copies import Copy, Entry, Place, printable, short_key
from streamjobs.maintenance.renew import offsets_of
from streamjobs.maintenance.summary import with_remedy
from streamjobs.settings.types import many

EXAMPLES = 3  # keys named for each problem
AT_ONCE = 500  # states
ROOM = 1 << 40  # bytes; only AT_ONCE states are held at a time
LOOKED_AT = 100  # of the newest states, for one that another job wrote
Item = tuple[Place, Entry]


class Verified(NamedTuple):
    keys: int
    ahead: int  # keys that have applied more than the group has committed; they will skip those records
    problems: list[str]


def verified(
    job: Job,
    copy: Copy,
    ends: Mapping[int, int] | None,
    committed: Mapping[int, int] | None,
    against: Copy | None,
    counted: Callable[[Iterable[Item], str], Iterable[Item]] = lambda items, what: items,
) -> Verified:
    """Whether every snapshot decodes, belongs to the job and its partition, and has applied only input that exists.

    ends: end offsets of the input's partitions; committed: the group's next offsets; both None for a copy in a file.
    against: an older copy; the present states must not be behind it. counted: passes states on, and may print how many.
    """
    keys_by_problem, ahead = defaultdict[str, list[str]](list), 0
    for place, entry in counted(copy.entries.items(), "states verified"):
        for problem in _problems(job, entry, ends):
            keys_by_problem[problem].append(_named(place))
        applied = (offsets_of(entry) or {}).get((job.settings.source.topic, entry.partition), -1)
        ahead += committed is not None and applied >= committed.get(entry.partition, 0)
    for problem, place in _behind(copy, against) if against is not None else ():
        keys_by_problem[problem].append(_named(place))
    problems = [f"{many(len(keys), 'key')} ({_some(keys)}): {problem}" for problem, keys in keys_by_problem.items()]
    return Verified(len(copy.entries), ahead, problems)


def _named(place: Place) -> str:
    return f"{short_key(place[1])!r}[{place[0]}]"


def _some(keys: Sequence[str]) -> str:
    return ", ".join(keys[:EXAMPLES]) + (f" and {len(keys) - EXAMPLES:,} more" if len(keys) > EXAMPLES else "")


def _problems(job: Job, entry: Entry, ends: Mapping[int, int] | None) -> Iterator[str]:
    try:
        _, _, offsets = load_snapshot(job, entry.data)
    except SnapshotError as error:
        yield with_remedy(error)
        return
    source = job.settings.source.topic
    for (topic, partition), offset in offsets.items():
        if topic != source:
            yield f"expected offsets of the input {source}, got offsets of {topic}; was [source] topic renamed?"
        elif partition != entry.partition:
            yield f"expected offsets of its own partition, got offsets of partition {partition}."
        elif ends is not None and offset >= ends.get(partition, 0):
            yield (
                f"its last applied offset is beyond the end of {source}[{partition}], {ends.get(partition, 0)}: the topic "
                "was recreated, and its new records would be skipped; use 'streamjobs state forget-offsets'."
            )


def _behind(copy: Copy, against: Copy) -> Iterator[tuple[str, Place]]:
    for place, old in against.entries.items():
        new = copy.entries.get(place)
        was, now = offsets_of(old), offsets_of(new)  # None: `_problems` has a sentence for it
        if new is None:
            yield "in the older copy, but not here; idle longer than [state] ttl, or forgotten since?", place
        elif new.offset < old.offset:
            yield "the older copy has a newer snapshot: the changelog has lost records.", place
        elif new.offset == old.offset and new.data != old.data:
            yield "its bytes differ from those in the older copy at the same changelog offset.", place
        elif was and now is not None and any(now.get(one, -1) < offset for one, offset in was.items()):
            yield "its last applied offset is behind the one in the older copy: input would be learned twice.", place


def unreadable(job: Job, records: Iterable[Stored]) -> tuple[dict[Place, str], int, bytes]:
    """Places of the newest states, among these records of a changelog, that cannot be read, and why; how many these are.

    Also the last state that can be read, b"" if there is none. Raises ForeignStateError for a state of another job.
    """
    found: dict[Place, str] = {}
    read, last = 0, b""
    records = iter(records)
    while batch := list(islice(records, AT_ONCE)):
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


def sentence(found: dict[Place, str]) -> str:
    """What `check --online` says of these keys."""
    return (
        f"the states of {many(len(found), 'key')} cannot be read ({_some(list(map(_named, found)))}); workers set "
        "such keys aside, and their records become dead letters. 'streamjobs state verify JOB' says why and what to do."
    )
