"""Sends recorded records to a topic: in order, idempotent, acknowledged by all replicas, none lost without a word."""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from streamjobs.core.messages import Stored
from streamjobs.errors import StreamjobsError
from streamjobs.kafka import client, timeouts
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.types import many

PARTITIONERS = {"murmur2": "murmur2_random", "crc32": "consistent_random", "fnv1a": "fnv1a_random"}
FULL = 0.1  # seconds to wait where the producer's queue is full
ANSWER_WITHIN = 60.0  # seconds for a record's acknowledgement
UNREAD = -1  # a timestamp, of a record with a time that cannot be read
LATEST = 253_402_300_799  # the last second of the year 9999
LARGEST = 100 << 20  # bytes of a request; the topic has its own limit


class SendError(StreamjobsError):
    """Records of a file did not all reach the topic."""


class Retention(NamedTuple):
    """How long a topic keeps records by their timestamps, and how far ahead of its clock they may be."""

    seconds: float | None  # None: for ever, or not by timestamps of the producer
    ahead: float | None = None  # seconds

    def refuse(self, topic: str, timestamp: int, now: float) -> None:
        """Raises SendError for a record that the broker would refuse, or delete soon after it came."""
        if self.ahead is not None and timestamp / 1000 > now + self.ahead:
            when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(min(timestamp / 1000, LATEST)))
            raise SendError(
                f"topic {topic} takes timestamps up to {self.ahead / 3600:.3g} h ahead (message.timestamp.after.max.ms); "
                f"the next record has the time {when}: correct the times or --start, or send with --timestamps now."
            )
        if self.seconds is not None and timestamp / 1000 < now - self.seconds:
            when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(timestamp / 1000))
            raise SendError(
                f"topic {topic} keeps records for {self.seconds / 86400:.3g} days by their timestamps. The next record "
                f"has the time {when}, and the broker would delete it: send with --timestamps now (event times stay in the "
                "records), or set the topic's retention.ms to -1."
            )


class Sender:
    """Sends the records of one command. `acknowledged` counts those that the broker has."""

    def __init__(self, broker: BrokerSection, topic: str, partitioner: str = "murmur2") -> None:
        """Raises SetupError where the broker does not answer or the topic is missing."""
        self.topic, self.broker = topic, broker
        self.sent = self.acknowledged = 0
        self.problem: str | None = None  # of the first record that was refused
        settings = client.for_confluent(broker)
        self.retention = _retention(broker, settings, topic)
        self.producer: Any = Producer(
            {
                **settings,
                "enable.idempotence": True,  # implies acks=all: no record twice, none out of order
                "partitioner": PARTITIONERS[partitioner],
                "compression.type": "zstd",
                "linger.ms": 20,
                "message.max.bytes": LARGEST,
                "delivery.timeout.ms": round(ANSWER_WITHIN * 1000),
            }
        )

    def send(self, records: Iterable[Stored], *, stamped: bool, progress: Callable[[int, int], None]) -> None:
        """Send all records, and wait until each is acknowledged.

        stamped: with the records' timestamps; else with the time of sending. progress: called with (sent, acknowledged)
        after each record. Raises SendError where a record is refused or not acknowledged in time; what was sent before
        stays in the topic.
        """
        try:
            for record in records:
                own = record.timestamp != UNREAD
                if stamped and own:
                    self.retention.refuse(self.topic, record.timestamp, time.time())
                self._produce(record, record.timestamp if stamped and own else 0)  # 0: the client takes the present
                self.sent += 1
                if self.problem is not None:
                    break
                progress(self.sent, self.acknowledged)
        finally:
            left = int(self.producer.flush(ANSWER_WITHIN))
        if left or self.problem is not None:
            why, sent = self.problem or f"no answer within {ANSWER_WITHIN:.0f} s", many(self.sent, "record")
            again = (
                " If you send the file again, samples that a key has already applied are late: [source] late = "
                "'drop' skips them; 'learn' without [window] learns them twice."
            )
            said = f"topic {self.topic}: {self.acknowledged:,} of {sent} acknowledged ({why.rstrip('.')})."
            raise SendError(said + (again if self.acknowledged else ""))

    def wait_until(self, moment: float) -> None:
        """Take acknowledgements until then, in the time of time.monotonic()."""
        while (left := moment - time.monotonic()) > 0:
            self.producer.poll(min(left, 0.2))

    def _produce(self, record: Stored, timestamp: int) -> None:
        on_delivery, headers = self._delivered(record.offset), list(record.headers)
        fields = {"key": record.key, "value": record.value, "timestamp": timestamp, "headers": headers}
        try:
            while not queued(self.producer, self.topic, **fields, on_delivery=on_delivery):
                self.producer.poll(FULL)
        except KafkaException as error:
            self.problem = f"row {record.offset + 1}: {client.reason_of(error)}"

    def _delivered(self, row: int) -> Callable[[Any, Any], None]:
        def take(error: Any, _: Any) -> None:
            if error is None:
                self.acknowledged += 1
            elif self.problem is None:
                why = error.str()
                if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    why = f"expected the right to Write, not granted to {client.principal(self.broker)}"
                self.problem = f"row {row + 1}: {why}"

        return take


def queued(producer: Any, topic: str, **record: Any) -> bool:
    """Give a record to the producer, and take the answers that have come; False while its queue is full."""
    try:
        producer.produce(topic, **record)
    except BufferError:
        return False
    producer.poll(0)
    return True


def _retention(broker: BrokerSection, settings: dict[str, Any], topic: str) -> Retention:
    """Raises SetupError where the broker does not answer or the topic is missing."""
    admin = AdminClient(settings)
    try:
        client.partitions_of(admin, topic)
    except KafkaException as error:
        raise client.unanswered(broker, error) from None
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        entries = admin.describe_configs([resource], request_timeout=timeouts.LOOKUP)[resource].result()
    except KafkaException as error:
        if error.args[0].code() not in client.NO_ANSWER:  # who may only write, or a broker without such a request
            return Retention(None)
        raise client.unanswered(broker, error) from None
    kept, kind = entries["retention.ms"].value, entries["message.timestamp.type"].value
    by_time = "delete" in entries["cleanup.policy"].value and kind == "CreateTime" and int(kept) >= 0
    after = entries.get("message.timestamp.after.max.ms") if kind == "CreateTime" else None  # since Kafka 3.6
    return Retention(int(kept) / 1000 if by_time else None, None if after is None else int(after.value) / 1000)
