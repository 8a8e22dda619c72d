"""Reads topics up to their present end, all partitions at once; and the newest snapshot of every key from the changelog."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException

from streamjobs.core.messages import Stored
from streamjobs.kafka import client, preflight, reader, topics
from streamjobs.kafka.topic_id import Origin, newest_input, require_same_input
from streamjobs.maintenance import changelog_edit
from streamjobs.maintenance.copies import Copy, Entry, Place
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.sections import Settings

T = TypeVar("T")

NEWEST = 5  # records of a partition of the changelog; markers of transactions count


def numbers_of(broker: BrokerSection, topic: str, setting: str) -> list[int]:
    """The topic's partitions. setting: where the job file names the topic.

    Raises SetupError if the broker does not answer or the topic is missing.
    """
    consumer = Consumer({**client.for_confluent(broker), "group.id": "streamjobs-state"})  # never a member
    try:
        return client.partitions_of(consumer, topic, client.NOT_MADE.format(setting))
    except KafkaException as error:
        raise client.unanswered(broker, error) from None
    finally:
        consumer.close()


def records_of(broker: BrokerSection, topic: str, setting: str, start: Mapping[int, int] | None = None) -> Iterator[Stored]:
    """Every committed record of a topic up to its present end; each partition in order.

    start: partition -> first offset, other partitions are left out; None: everything.
    Raises SetupError if the broker does not answer or the topic is missing.
    """
    partitions = numbers_of(broker, topic, setting)
    first = dict.fromkeys(partitions, 0) if start is None else start
    yield from reader.read(broker, topic, {number: (first[number], None) for number in partitions if number in first})


def changelog_records(settings: Settings) -> Iterator[Stored]:
    """Every record of the changelog. Raises SetupError, and SnapshotError for a record that no one can read."""
    return map(reader.readable, records_of(settings.broker, topics.changelog(settings), "[job] name"))


def newest_by_key(
    records: Iterable[Stored], keep: Callable[[Stored], T], wanted: Callable[[bytes], bool] = lambda key: True
) -> dict[Place, T]:
    """What `keep` makes of the newest record of every wanted key; a tombstone removes its key."""
    newest: dict[Place, T] = {}
    for record in records:
        if record.key is None or not wanted(record.key):
            continue
        place = record.partition, record.key
        if record.value:
            newest[place] = keep(record)
        else:
            newest.pop(place, None)
    return newest


def newest_snapshots(
    settings: Settings,
    fingerprint: bytes,
    wanted: Callable[[bytes], bool] = lambda key: True,
    counted: Callable[[Iterable[Stored], str], Iterable[Stored]] = lambda records, what: records,
) -> Copy:
    """The newest snapshot of every wanted key, from the changelog. Raises SetupError and SnapshotError.

    counted: passes records on, and may print how many these are.
    """
    ends = dict.fromkeys(numbers_of(settings.broker, topics.changelog(settings), "[job] name"), 0)
    inputs: dict[int, Origin] = {}

    def noted() -> Iterator[Stored]:
        for record in counted(changelog_records(settings), "records of the changelog read"):
            ends[record.partition] = record.offset + 1
            if newest := newest_input([record.headers], inputs.get(record.partition)):
                inputs[record.partition] = newest
            yield record

    entries = newest_by_key(noted(), _entry, wanted)
    taken, topic = round(time.time() * 1000), topics.changelog(settings)
    return Copy(settings.job.name, topic, fingerprint.hex(), taken, ends, dict(sorted(entries.items())), inputs)


def _entry(record: Stored) -> Entry:
    assert record.key is not None and record.value is not None, "`newest_by_key` keeps no others"
    return Entry(record.partition, record.key, record.value, record.offset, record.timestamp)


def require_present_input(settings: Settings) -> None:
    """Raises SetupError if the newest states have learned from another input topic, or from one that was recreated."""
    changelog, inputs = topics.changelog(settings), dict[int, Origin | None]()
    count = NEWEST * len(numbers_of(settings.broker, changelog, "[job] name"))
    for record in reader.newest(settings.broker, changelog, count, time.monotonic()):
        inputs[record.partition] = newest_input([record.headers], inputs.get(record.partition))
    present = preflight.origin_of(settings, changelog_edit.admin_of(settings))
    for known in filter(None, inputs.values()):
        require_same_input(settings.job.name, present, known)
