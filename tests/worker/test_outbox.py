"""Batches: what goes in comes out, in order, whatever its size."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from streamjobs.core.messages import Output
from streamjobs.errors import SetupError
from streamjobs.job_files import core_from
from streamjobs.kafka import timeouts
from streamjobs.kafka.client import for_aiokafka, servers
from streamjobs.kafka.topics import BATCH_BYTES, Span
from streamjobs.settings.composition import composition_of
from streamjobs.settings.load import settings_from
from streamjobs.settings.sections import BrokerSection
from streamjobs.worker import outbox
from streamjobs.worker.app import build
from streamjobs.worker.backpressure import Backpressure
from streamjobs.worker.changelog import Changelog
from streamjobs.worker.failures import DeliveryError
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.outbox import BATCH_TTL, Outbox, send_dead_letters, send_records
from tests.worker.fakes import Broker, FakeProducer


def test_records_arrive_unchanged_and_in_order_in_as_few_batches_as_fit():
    records = [
        (
            "features",
            b"k%d" % n if n % 3 else None,
            b"v" * 3000 if n % 5 else None,
            1_000 + n,
            [("streamjobs-id", b"in-0-%d" % n)],
        )
        for n in range(900)
    ]

    async def body():
        broker = Broker()
        producer = FakeProducer(broker)
        sent = await send_records(producer, "out", 2, records)
        return broker.topics, sent, producer.batches

    answers, sent, batches = asyncio.run(body())
    assert [(a.topic, a.partition, a.key, a.value, list(a.headers)) for a in answers] == [
        ("out", 2, key, value, headers) for _, key, value, _, headers in records
    ]
    assert [batch.records for batch in sent] == batches and sum(batches) == 900 and len(batches) == 3
    assert all(batch.bytes <= BATCH_BYTES for batch in sent)


def test_a_record_larger_than_a_batch_goes_alone_so_that_the_broker_decides():
    records = [("dlq", b"a", b"1", 1, []), ("dlq", b"b", bytes(2 * BATCH_BYTES), 2, []), ("dlq", b"c", b"3", 3, [])]

    async def body():
        broker = Broker()
        producer = FakeProducer(broker)
        await send_records(producer, "out", 0, records)
        return [len(answer.value) for answer in broker.topics], producer.batches

    assert asyncio.run(body()) == ([1, 2 * BATCH_BYTES, 1], [1, 1, 1])


def stamps_sent(send):
    """Of each record in the order of sending."""
    stamps = []

    class Stamped(FakeProducer):
        async def send_batch(self, batch, topic, *, partition):
            records = MemoryRecords(bytes(batch._build()))
            while records.has_next():
                stamps.extend(record.timestamp for record in records.next_batch())
            return await super().send_batch(batch, topic, partition=partition)

    asyncio.run(send(Stamped(Broker())))
    return stamps


def test_letters_without_a_timestamp_keep_none_beside_others():
    stamps = [-1, 7_000, -1, -1, 8_000, 9_000, -1]
    letters = [("dlq", b"k", b"%d" % at, at, []) for at in stamps]
    assert stamps_sent(lambda producer: send_dead_letters(producer, "dlq", 0, letters)) == stamps


SIZES = st.one_of(st.none(), st.integers(0, 40), st.sampled_from([133, 134, 300]))


@given(st.lists(st.tuples(SIZES, st.sampled_from([-1, 5, 9])), max_size=9), st.booleans())
def test_dead_letters_of_any_size_arrive_once_in_order_and_each_large_one_is_a_batch_of_its_own(letters, transactional):
    """A large one is compressed, and says that it belongs to a transaction: else readers would see it without a commit."""
    records = [
        ("dlq", b"k%d" % n, None if size is None else b"%03d" % n * size, at, [("h", b"%d" % n)])
        for n, (size, at) in enumerate(letters)
    ]
    found = []

    class Transactional(FakeProducer):
        _txn_manager = SimpleNamespace(transactional_id="job-0" if transactional else None)

        def create_batch(self):
            return BatchBuilder(400, 0, is_transactional=int(transactional))

        async def send_batch(self, batch, topic, *, partition):
            whole = MemoryRecords(bytes(batch._build())).next_batch()
            found.extend(inside := list(whole))
            large = len(inside[0].value or b"") > 400
            assert len(inside) == 1 or not large
            assert (whole.is_transactional, whole.compression_type) == (transactional, outbox.ZSTD if large else 0)
            return await super().send_batch(batch, topic, partition=partition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "BATCH_BYTES", 400)
        broker = Broker()
        sent = asyncio.run(send_dead_letters(Transactional(broker), "dlq", 0, records))
    assert [("dlq", one.key, one.value, [*one.headers]) for one in broker.topics] == [(*one[:3], one[4]) for one in records]
    assert [one.timestamp for one in found] == [one[3] for one in records]
    assert sum(batch.records for batch in sent) == len(records)


def test_outputs_have_no_timestamp_where_their_topic_would_refuse_it(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    spans = {"out": Span(10_000, 5_000), "letters": Span(1 << 62, 5_000)}
    topics = {"features": "out", "drift": "any", "dlq": "letters"}
    stamps = [989_999, 990_000, 1_005_000, 1_005_001, 2**63 - 1]
    outputs = [Output(sink, b"k", b"v", at, []) for sink in topics for at in stamps]

    async def send(producer):
        await Outbox(0, topics, lambda: producer, Backpressure(), spans=spans).send(outputs)

    assert stamps_sent(send) == [-1, *stamps[1:3], -1, -1, *stamps, *stamps[:3], -1, -1]


def test_the_builder_below_aiokafkas_own_is_the_one_we_know():
    """We append below the public interface; a release that changes it must fail here."""
    batch = BatchBuilder(BATCH_BYTES, 0)
    assert batch._builder.append(0, 5, key=b"k", value=b"v", headers=[("h", b"1")]).offset == 0
    batch._relative_offset = 1
    assert batch.record_count() == 1


@pytest.mark.parametrize("refusal", [KafkaTimeoutError, UnknownTopicOrPartitionError])
def test_a_batch_waits_while_the_one_before_it_cannot_leave_or_nobody_knows_its_topic(refusal):
    """aiokafka gives up after one request's time, and has not taken the batch then."""

    class Leaderless(FakeProducer):
        refusals = 3

        async def send_batch(self, *arguments, **named):
            if self.refusals:
                self.refusals -= 1
                raise refusal
            return await super().send_batch(*arguments, **named)

    async def body():
        broker = Broker()
        sent = await send_records(Leaderless(broker), "out", 0, [("features", b"a", b"1", 1, [])])
        return broker.topics, sent

    answers, sent = asyncio.run(body())
    assert [(answer.key, answer.value) for answer in answers] == [(b"a", b"1")] and len(sent) == 1


def test_brokers_that_take_nothing_for_minutes_end_the_worker_with_one_sentence(monkeypatch):
    class Leaderless(FakeProducer):
        async def send_batch(self, *arguments, **named):
            raise KafkaTimeoutError

    monkeypatch.setattr(outbox, "BATCH_TTL", -1.0)
    one = Outbox(3, {"drift": "alarms"}, lambda: Leaderless(Broker()), Backpressure())
    with pytest.raises(
        DeliveryError, match=r"topic alarms\[3\]: the brokers took no outputs .* in sync for min\.insync\.replicas"
    ):
        asyncio.run(one.send([Output("drift", b"k", b"v", 1, [])]))


def test_a_dead_connection_is_given_up_long_before_what_it_carried(tmp_path):
    """A request waits seconds for an answer; a batch waits minutes for a leader."""

    async def body():
        settings = for_aiokafka(BrokerSection())
        changelog = Changelog(settings, "job", "job-state-changelog", 0)._producer
        app = build_app()
        return [changelog, app.producer._new_producer()]

    def build_app():
        state = {"store": "memory", "directory": str(tmp_path)}
        settings = settings_from({"source": {"topic": "in", "dim": 1}, "learner": {"name": "lms"}, "state": state})
        return build(settings, core_from(composition_of(settings)), Metrics(), 1)

    for producer in asyncio.run(body()):
        assert producer._sender._acks == -1 and producer._txn_manager is not None, "all replicas, and no repeats"
        assert producer._request_timeout_ms == timeouts.REQUEST_MS <= 20_000
        assert producer._message_accumulator._batch_ttl == BATCH_TTL > 5 * timeouts.REQUEST_MS / 1000


def test_broker_addresses_get_their_default_port():
    class Broker:
        url = "kafka://a,b:9093"

    assert servers(Broker()) == ["a:9092", "b:9093"]


def test_a_state_directory_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "taken").touch()
    state = {"store": "memory", "directory": str(tmp_path / "taken")}
    settings = settings_from({"source": {"topic": "in", "dim": 1}, "learner": {"name": "lms"}, "state": state})
    with pytest.raises(
        SetupError, match=r"^\[state\] directory: .*taken/streamjobs cannot be created \(Not a directory\); set"
    ):
        build(settings, core_from(composition_of(settings)), Metrics(), 1)


@pytest.mark.parametrize("failed", [None, DeliveryError("refused")])
def test_a_worker_that_stops_on_a_failure_sends_nothing_more(failed, monkeypatch):
    """Its input is read again; and what no broker takes would keep it from ending."""
    steps = []

    async def flush(self):
        steps.append("flush")

    monkeypatch.setattr(outbox.driver.Producer, "flush", flush)
    producer = outbox.Producer.__new__(outbox.Producer)
    producer.app = SimpleNamespace(delivery=SimpleNamespace(failed=failed))
    accumulator = SimpleNamespace(fail_all=lambda error: steps.append(type(error).__name__))
    producer._producer = SimpleNamespace(_message_accumulator=accumulator)
    asyncio.run(producer.flush())
    assert steps == (["ProducerClosed", "flush"] if failed else ["flush"])
