"""Whether a key's state may be removed, which topics still hold its records then, and until when at the latest."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from streamjobs.core.decoding.keys import key_reader
from streamjobs.errors import SetupError
from streamjobs.kafka import preflight, topics
from streamjobs.maintenance import changelog_edit
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import offsets_of
from streamjobs.maintenance.scan import records_of
from streamjobs.settings.sections import Settings

DAY = 86_400_000  # milliseconds
REKEYED_FROM = "rekeyed"  # role of the topic that `streamjobs rekey` copies
LONGEST = 100 * 365 * DAY  # a longer duration is not a bound (such as Kafka's largest number)


class Holding(NamedTuple):
    topic: str
    role: str  # input | rekeyed | state | a sink's name
    records: int | None  # of this key; None: not counted
    policy: str  # cleanup.policy; "": not known
    until: int | None  # at the latest, milliseconds since 1970; None: no bound
    why: str  # the settings that make the bound


def require_passed(settings: Settings, entries: Iterable[Entry]) -> None:
    """Raises SetupError if a state has applied records that the group has not passed: without it they are learned again.

    A worker leaves such states if it is killed between writing them and committing the offset.
    """
    known, topic = preflight.commits_of(settings), settings.source.topic
    for entry in entries:
        committed = known[entry.partition].offset if entry.partition in known else 0
        applied = (offsets_of(entry) or {}).get((topic, entry.partition), -1)
        if applied >= committed:
            raise SetupError(
                f"topic {topic}[{entry.partition}]: the state has applied records up to offset {applied:,}, and the group's "
                f"offset is {committed:,}: without the state, a worker would learn the records in between again. Nothing "
                "was changed. Run 'streamjobs run JOB --once', which commits the offset, then repeat the command."
            )


def holdings(settings: Settings, sinks: dict[str, str], key: bytes, partitions: list[int], *, count: bool) -> list[Holding]:
    """One for every topic of the job that may hold the key. partitions: those with a state of the key.

    A topic that cannot be read with these credentials is one of them, with the reason.
    """
    admin = changelog_edit.admin_of(settings)
    roles = {settings.source.topic: "input", **{topic: sink for sink, topic in sinks.items()}}
    roles[topics.changelog(settings)] = "state"
    if settings.source.rekeyed:
        roles[settings.source.base_topic] = REKEYED_FROM
    topics_with_key = []
    for topic, role in roles.items():
        try:
            config = changelog_edit.topic_config(settings, admin, topic)
            records, newest = _count(settings, topic, role, key, partitions) if config and count else (None, None)
        except SetupError as refused:
            topics_with_key.append(Holding(topic, role, None, "", None, f"not known: {refused}"))
            continue
        newest = newest if newest is not None else round(time.time() * 1000)
        topics_with_key += [holding(topic, role, records, newest, config)] if config else []
    return topics_with_key


def _count(settings: Settings, topic: str, role: str, key: bytes, partitions: list[int]) -> tuple[int, int | None]:
    """The number of the key's records in a topic, without tombstones, and the newest one's timestamp."""
    count, newest = 0, None
    inside = role == REKEYED_FROM or (settings.source.key is not None and role in ("input", "dlq"))
    anywhere = role == REKEYED_FROM or (settings.source.rekeyed and role == "dlq")
    key_of = key_reader(settings.source) if inside else lambda record: record
    start = None if anywhere else dict.fromkeys(partitions, 0)
    for record in records_of(settings.broker, topic, "the job file", start):
        if key_of(record).key == key and record.value is not None:
            count += 1
            newest = max(newest or 0, record.timestamp)
    return count, newest


def holding(topic: str, role: str, records: int | None, newest: int, config: dict[str, str]) -> Holding:
    """The bound that follows from a topic's configuration. newest: timestamp of the key's newest record there.

    Kafka deletes whole segments, retention.ms after their newest record, and a segment may grow for segment.ms.
    """
    policy, until = config.get("cleanup.policy", "delete"), None
    segment, keeps, lag = (_duration(config, name) for name in ("segment.ms", "retention.ms", "max.compaction.lag.ms"))
    if "delete" in policy:
        why = "retention.ms is unlimited: delete records or the topic"
        if keeps is not None and segment is not None:
            why = f"retention.ms {_as_text(keeps)} after its segment, which may grow for segment.ms {_as_text(segment)}"
            until = newest + segment + keeps
    elif role != "state":
        why = "compacted: it keeps the key's newest record until a tombstone of the key"
    elif lag is None:
        why = "compaction removes them at an unknown time: set max.compaction.lag.ms for a bound"
    else:
        why, until = f"max.compaction.lag.ms {_as_text(lag)} after the tombstone", round(time.time() * 1000) + lag
    return Holding(topic, role, records, policy, until, why)


def _duration(config: dict[str, str], name: str) -> int | None:
    value = int(config.get(name, "-1"))
    return None if value < 0 or value > LONGEST else value


def _as_text(milliseconds: int) -> str:
    """A duration as text for people.

    >>> _as_text(604_800_000), _as_text(90_000)
    ('7 days', '90 s')
    """
    return f"{milliseconds / DAY:g} days" if milliseconds >= DAY else f"{milliseconds / 1000:g} s"
