"""Reading topics to the end they have now, all partitions at once; and the newest snapshot of every key that way."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from streamjobs.access import BrokerSection
from streamjobs.config import Settings
from streamjobs.core.messages import Stored
from streamjobs.errors import SetupError
from streamjobs.shell import client, topics
from streamjobs.shell.identity import newest_mark
from streamjobs.state.copies import Copy, Entry

ANSWER_WITHIN = 10.0  # seconds
AT_ONCE = 2_000  # records


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
    settings = client.for_confluent(broker)
    consumer = Consumer(
        {
            **settings,
            "group.id": "streamjobs-state",  # never committed to
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",  # where retention has passed a wanted offset
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        there = partitions_of(consumer, topic, setting)
        at = dict.fromkeys(there, OFFSET_BEGINNING) if start is None else {n: start[n] for n in there if n in start}
        if at:
            consumer.assign([TopicPartition(topic, number, offset) for number, offset in at.items()])
            yield from _until_the_ends(consumer, topic, set(at))
    except KafkaException as error:
        raise client.unanswered(broker, error) from None
    finally:
        consumer.close()


def _until_the_ends(consumer: Any, topic: str, waiting: set[int]) -> Iterator[Stored]:
    while waiting:
        for message in consumer.consume(AT_ONCE, timeout=0.05):
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
                elif not error.retriable():
                    raise KafkaException(error)
            elif message.partition() in waiting:  # what came after its end was met is not asked for
                headers = tuple((name, text or b"") for name, text in message.headers() or ())
                place = topic, message.partition(), message.offset(), message.timestamp()[1]
                yield Stored(*place, message.key(), message.value(), headers)


def newest(settings: Settings, fingerprint: bytes, wanted: Callable[[bytes], bool] = lambda key: True) -> Copy:
    """The newest snapshot of every wanted key, out of the changelog. Raises SetupError."""
    topic = topics.changelog(settings)
    entries: dict[tuple[int, bytes], Entry] = {}
    ends: dict[int, int] = {}
    for record in records_of(settings.broker, topic, "[job] name"):
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
    for record in records_of(settings.broker, topics.changelog(settings), "[job] name"):
        known = newest_mark([record.headers])
        if known is not None:
            found[record.partition] = known
    return found
