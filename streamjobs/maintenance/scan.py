"""Reading topics to the end they have now, all partitions at once; and the newest snapshot of every key that way."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException

from streamjobs.core.messages import Stored
from streamjobs.errors import SetupError
from streamjobs.kafka import client, reader, topics
from streamjobs.kafka.topic_id import newest_mark
from streamjobs.maintenance.copies import Copy, Entry
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.sections import Settings

ANSWER_WITHIN = 10.0  # seconds


def partitions_of(consumer: Any, topic: str, setting: str) -> list[int]:
    """The topic's partitions; raises SetupError where it is missing. setting: where the job file names it."""
    known = consumer.list_topics(topic, timeout=ANSWER_WITHIN).topics.get(topic)
    if known is None or known.error is not None or not known.partitions:
        raise SetupError(
            f"topic {topic}: not there; run the job once, create it with 'streamjobs topics create', or correct {setting}."
        )
    return sorted(known.partitions)


def records_of(broker: BrokerSection, topic: str, setting: str, start: Mapping[int, int] | None = None) -> Iterator[Stored]:
    """Every record of a topic that counts, up to the end it has now; each partition in order.

    start: partition -> first offset; other partitions are left out. None: everything.
    Raises SetupError where the broker does not answer or the topic is missing.
    """
    consumer = Consumer({**client.for_confluent(broker), "group.id": "streamjobs-state"})  # never a member
    try:
        there = partitions_of(consumer, topic, setting)
    except KafkaException as error:
        raise client.unanswered(broker, error) from None
    finally:
        consumer.close()
    at = dict.fromkeys(there, 0) if start is None else {number: start[number] for number in there if number in start}
    yield from reader.read(broker, topic, {number: (first, None) for number, first in at.items()})


def newest(settings: Settings, fingerprint: bytes, wanted: Callable[[bytes], bool] = lambda key: True) -> Copy:
    """The newest snapshot of every wanted key, out of the changelog. Raises SetupError."""
    topic = topics.changelog(settings)
    entries: dict[tuple[int, bytes], Entry] = {}
    ends: dict[int, int] = {}
    for record in map(reader.readable, records_of(settings.broker, topic, "[job] name")):
        ends[record.partition] = record.offset + 1
        if record.key is None or not wanted(record.key):
            continue
        place = record.partition, record.key
        if record.value:
            entries[place] = Entry(*place, record.value, record.offset, record.timestamp)
        else:
            entries.pop(place, None)
    taken = round(time.time() * 1000)
    return Copy(settings.job.name, topic, fingerprint.hex(), taken, ends, dict(sorted(entries.items())))


def sources(settings: Settings) -> dict[int, str]:
    """partition -> id of the input topic its states have learned from, where the changelog tells. Raises SetupError."""
    found: dict[int, str] = {}
    for record in map(reader.readable, records_of(settings.broker, topics.changelog(settings), "[job] name")):
        known = newest_mark([record.headers])
        if known is not None:
            found[record.partition] = known
    return found
