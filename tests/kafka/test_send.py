"""Sending a file's records: a full queue, a refusal or a missing answer loses none without a word."""

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamjobs.core.messages import Stored
from streamjobs.kafka import client, send
from streamjobs.kafka.send import UNREAD, Retention, Sender, SendError
from streamjobs.settings.broker import BrokerSection

BROKER = BrokerSection(url="kafka://nowhere:1")
NOW = 1_700_000_000.0
Delivered = Callable[[Any, Any], None]


class Producer:
    """librdkafka's: a queue of two records, of which each poll delivers the first."""

    refused: dict[int, KafkaError]  # answers by the number of the record
    answers = True

    def __init__(self, settings: dict[str, Any]) -> None:
        self.queue: list[tuple[int, Delivered]] = []
        self.taken: list[tuple[bytes, int]] = []  # values, timestamps

    def produce(self, topic: str, *, value: bytes, timestamp: int, on_delivery: Delivered, **_: Any) -> None:
        if len(value) > 9:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if len(self.queue) == 2:
            raise BufferError
        self.queue.append((len(self.taken), on_delivery))
        self.taken.append((value, timestamp))

    def poll(self, seconds: float) -> None:
        if self.queue and self.answers and seconds:
            number, on_delivery = self.queue.pop(0)
            on_delivery(self.refused.get(number), None)

    def flush(self, seconds: float) -> int:
        while self.queue and self.answers:
            self.poll(seconds)
        return len(self.queue)


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Sender:
    monkeypatch.setattr(send, "Producer", Producer)
    monkeypatch.setattr(send, "_retention", lambda *_: Retention(3600.0))
    monkeypatch.setattr(send.time, "time", lambda: NOW)
    monkeypatch.setattr(Producer, "refused", {}, raising=False)
    return Sender(BROKER, "imu")


def records(n: int) -> list[Stored]:
    return [Stored("", 0, row, round(1000 * NOW) + row, b"p1", b"%d" % row) for row in range(n)]


def ignored(sent: int, acknowledged: int) -> None:
    """No progress is printed."""


@pytest.mark.parametrize("stamped", [True, False])
def test_a_full_queue_loses_no_record_and_keeps_their_order(sender: Sender, stamped: bool) -> None:
    last = [Stored("", 0, 7, UNREAD, b"p1", b"7")]
    sender.send(records(7) + last, stamped=stamped, progress=ignored)
    stamps = [round(1000 * NOW) + row if stamped else 0 for row in range(7)]
    assert sender.producer.taken == [*((b"%d" % row, at) for row, at in enumerate(stamps)), (b"7", 0)]
    assert (sender.sent, sender.acknowledged) == (8, 8)


def test_records_without_an_answer_are_an_error(sender: Sender) -> None:
    sender.producer.answers = False
    with pytest.raises(SendError, match=r"topic imu: 0 of 2 records acknowledged \(no answer within 60 s\)\.$"):
        sender.send(records(2), stamped=True, progress=ignored)


def test_the_first_record_that_a_broker_refuses_is_named_and_nothing_more_is_sent(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = {1: KafkaError.TOPIC_AUTHORIZATION_FAILED, 2: KafkaError.INVALID_TIMESTAMP}
    monkeypatch.setattr(Producer, "refused", {number: KafkaError(code) for number, code in codes.items()})
    what = r"2 of 4 records acknowledged \(row 2: expected the right to Write, not granted to User:ANONYMOUS\)"
    with pytest.raises(SendError, match=what):
        sender.send(records(9), stamped=True, progress=ignored)
    assert len(sender.producer.taken) == 4


def test_a_record_that_the_client_refuses_ends_the_sending(sender: Sender) -> None:
    rows = records(4)
    rows[2] = rows[2]._replace(value=b"0123456789")
    with pytest.raises(SendError, match=r"2 of 3 records acknowledged \(row 3: .*[Tt]oo large"):
        sender.send(rows, stamped=True, progress=ignored)
    assert len(sender.producer.taken) == 2


def test_a_record_that_the_topic_would_delete_is_not_sent_with_its_time(sender: Sender) -> None:
    old = records(1)[0]._replace(timestamp=round(1000 * NOW) - 3_601_000)
    sender.send([old], stamped=False, progress=ignored)
    with pytest.raises(SendError, match="the broker would delete it"):
        sender.send([old], stamped=True, progress=ignored)
    assert sender.producer.taken == [(b"0", 0)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, Retention(604_800.0, 3600.0)),
        ({"retention.ms": "-1"}, Retention(None, 3600.0)),  # for ever
        ({"retention.ms": "0"}, Retention(0.0, 3600.0)),
        ({"cleanup.policy": "compact"}, Retention(None, 3600.0)),
        ({"cleanup.policy": "compact,delete"}, Retention(604_800.0, 3600.0)),
        ({"message.timestamp.type": "LogAppendTime"}, Retention(None, None)),
        ({"message.timestamp.after.max.ms": None}, Retention(604_800.0, None)),  # before Kafka 3.6
    ],
)
def test_a_topics_settings_say_how_long_it_keeps_a_record(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None], expected: Retention
) -> None:
    known = {"retention.ms": "604800000", "cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}
    known |= {"message.timestamp.after.max.ms": "3600000"} | changed  # type: ignore[operator]
    entries = {name: SimpleNamespace(value=value) for name, value in known.items() if value is not None}

    def described(resources: list[Any], **_: Any) -> dict[Any, Any]:
        answer: Future[Any] = Future()
        answer.set_result(entries)
        return {resources[0]: answer}

    monkeypatch.setattr(send, "AdminClient", lambda settings: SimpleNamespace(describe_configs=described))
    monkeypatch.setattr(client, "partitions_of", lambda *_: [0])
    assert send._retention(BROKER, {}, "imu") == expected
