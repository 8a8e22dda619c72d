"""exactly_once: a checkpoint is one transaction, and what a crash, a refusal or a slow broker leaves of it."""

import asyncio
from functools import partial
from types import SimpleNamespace

import pytest
from aiokafka.errors import InvalidProducerIdMapping, KafkaError, ProducerFenced
from aiokafka.structs import TopicPartition

from streamjobs.errors import SetupError
from streamjobs.kafka.patches.batches import LeaderEpochs
from streamjobs.kafka.topic_id import Origin, epoch_of, progress_of, states_of
from streamjobs.settings.rules import LONGEST_TRANSACTION
from streamjobs.worker.changelog import TRANSACTION_TIMEOUT, Changelog
from streamjobs.worker.failures import DeliveryError, FencedError
from streamjobs.worker.outbox import BATCH_TTL, SentBatch
from streamjobs.worker.store import MemoryStore
from tests.worker.fakes import Broker, FakeProducer, FakeTransactions, Worker, crashed_at, stream, until
from tests.worker.outcome import check

ORDER = [f"{when} {what}" for what in ("changelog", "offset", "commit", "store") for when in ("before", "after")]


def transactions(worker: Worker) -> FakeTransactions:
    made = worker.kafka.opened[-1]
    assert isinstance(made, FakeTransactions)
    return made


def test_a_checkpoint_is_one_transaction_and_the_store_follows_its_commit():
    async def body():
        worker = Worker(exactly_once=True)
        delivery = await worker.begin(0)
        worker.fetch(0, stream(20))
        await worker.settle()
        assert worker.broker.topics == [] and len(transactions(worker).apart.topics) == 20
        assert await delivery.held[0].checkpoints.take()
        assert worker.broker.steps == ORDER
        assert worker.broker.committed == {0: 20} and len(worker.broker.topics) == 20
        assert delivery.partitions[0].committed == 20 and delivery.metrics.last_commit > 0
        assert delivery.partitions[0].unstored == {} and "whole" in worker.store.marks(0)

    asyncio.run(body())


@pytest.mark.parametrize("wiped", [False, True], ids=["disk kept", "disk wiped"])
@pytest.mark.parametrize("step", [*ORDER, "outputs"])
def test_a_crash_between_any_two_steps_repeats_no_output(step, wiped):
    records = stream(60, keys=7)

    async def first_life(broker):
        worker = Worker(broker, exactly_once=True)
        await crashed_at(worker, records, step)
        ahead = worker.store.reached(0)
        assert ahead is not None and ahead < len(broker.changelog[0]), "the store is ahead of what is committed"
        return worker.store

    async def second_life(broker, store):
        worker = Worker(broker, store=store, exactly_once=True)
        await worker.begin(0)
        worker.fetch(0, records[broker.committed[0] :])
        await worker.settle()
        worker.delivery.raise_barrier()
        await worker.delivery.revoke("test")
        assert worker.delivery.failed is None

    broker = Broker()
    store = asyncio.run(first_life(broker))
    assert broker.committed[0] == (45 if step in ("after commit", "before store", "after store") else 20)
    asyncio.run(second_life(broker, MemoryStore() if wiped else store))
    assert broker.committed == {0: 60} and len(broker.topics) == 60
    check(broker, records)


def test_what_is_applied_while_a_transaction_is_committed_belongs_to_the_next_one():
    async def body():
        worker = Worker(exactly_once=True)
        delivery = await worker.begin(0)
        made, may_commit = transactions(worker), asyncio.Event()
        commit = made.commit

        async def slow():
            await may_commit.wait()
            await commit()

        made.commit = slow
        worker.fetch(0, stream(10))
        await worker.settle()
        taking = asyncio.ensure_future(delivery.held[0].checkpoints.take())
        await asyncio.sleep(0.01)
        worker.fetch(0, stream(10, first=10))
        await asyncio.sleep(0.05)
        assert delivery.partitions[0].next == 20, "it goes on applying meanwhile"
        assert len(made.apart.topics) == 10, "an output joined a transaction whose offset lies before it"
        may_commit.set()
        assert await taking
        assert worker.broker.committed == {0: 10} and len(worker.broker.topics) == 10
        await worker.settle()
        assert await delivery.held[0].checkpoints.take()
        assert worker.broker.committed == {0: 20} and len(worker.broker.topics) == 20

    asyncio.run(body())


def test_nothing_is_committed_while_an_output_is_not_acknowledged():
    """aiokafka commits a transaction of which a batch was refused: it must not be asked to."""

    async def body():
        worker = Worker(exactly_once=True)
        delivery = await worker.begin(0)
        transactions(worker).out.hold = True
        worker.fetch(0, stream(20))
        await worker.settle()
        taking = asyncio.ensure_future(delivery.held[0].checkpoints.take())
        await asyncio.sleep(0.01)
        assert worker.broker.steps == [] and not taking.done()
        transactions(worker).out.release()
        assert await taking and worker.broker.committed == {0: 20}

    asyncio.run(body())


def test_a_transactional_id_that_expired_is_told():
    async def body():
        worker, refusal = Worker(exactly_once=True), KafkaError("Unexpected error during batch delivery")
        refusal.__cause__ = InvalidProducerIdMapping()
        delivery = await worker.begin(0)
        transactions(worker).out.refuse = refusal
        worker.fetch(0, stream(20))
        await asyncio.wait_for(until(lambda: delivery.failed), 5)
        assert "transactional.id.expiration.ms" in str(delivery.failed) and "max.message.bytes" not in str(delivery.failed)
        changelog = Changelog({}, "job", "log", 2)
        with pytest.raises(DeliveryError, match="has forgotten"), changelog._translated_errors([]):
            raise refusal
        failed = asyncio.get_running_loop().create_future()  # what a producer raises once its sender has met the refusal
        failed.set_exception(refusal)
        changelog._producer._sender = SimpleNamespace(sender_task=failed)
        with pytest.raises(DeliveryError, match="has forgotten"):
            await changelog.commit()

    asyncio.run(body())


@pytest.mark.parametrize(("offset", "reached"), [(51, None), (233, None), (234, 243), (-1, 8)])
def test_states_that_a_broker_puts_below_those_before_them_are_not_written(offset, reached, monkeypatch):
    """A node without them became leader and took the next ones; -1: the broker knows the batch, but no longer its offset."""

    async def body():
        acknowledged = asyncio.get_running_loop().create_future()
        acknowledged.set_result(SimpleNamespace(offset=offset))

        async def send(*arguments):
            return [SentBatch(acknowledged, 9, 90)]

        monkeypatch.setattr("streamjobs.worker.changelog.send_records", send)
        changelog = Changelog({}, "job", "log", 2)
        changelog.end = 234
        if reached is None:
            with pytest.raises(
                SetupError, match=rf"log\[2\]: .* written up to offset 234, but the changelog ends at {offset}"
            ):
                await changelog.send([(b"k", b"state")])
        else:
            assert await changelog.send([(b"k", b"state")]) == reached
            assert changelog.end == max(234, reached + 1), "behind the marker"

    asyncio.run(body())


class Producer(FakeProducer):
    """Of an open transaction. steps: what it was asked for, in order."""

    def __init__(self) -> None:
        super().__init__(Broker())
        self.offsets, self.steps, self.open = {}, [], True
        join = partial(self.step, "join")
        self._txn_manager = SimpleNamespace(
            is_in_transaction=lambda: self.open,
            maybe_add_partition_to_txn=lambda place: join(),
            _pending_txn_partitions=SimpleNamespace(clear=partial(self.step, "nothing more is sent")),
        )
        self._message_accumulator = SimpleNamespace(fail_all=lambda why: self.step("fail"))

    def step(self, name):
        self.steps.append(name)

    async def send_batch(self, *arguments, **named):
        self.step("send")
        return await super().send_batch(*arguments, **named)

    async def send_offsets_to_transaction(self, offsets, group):
        self.offsets |= offsets

    async def start(self):
        self.step("start")

    async def begin_transaction(self):
        self.step("begin")

    async def commit_transaction(self):
        self.step("commit")

    async def abort_transaction(self):
        self.step("abort")

    async def stop(self):
        self.step("stop")


@pytest.mark.parametrize("never_answers", [False, True])
def test_a_transaction_follows_the_one_before_and_a_closed_one_is_aborted(never_answers, monkeypatch):
    """States name the input that they have learned from."""
    monkeypatch.setattr("streamjobs.worker.changelog.CLOSE_WITHIN", 0.01)

    async def body():
        origin = Origin("imu", "i1", "c1", life="5f0c81d2")
        changelog, made = Changelog({}, "job", "log", 2, origin), Producer()
        changelog._producer = made
        await changelog.open()
        assert await changelog.write([(b"k", b"state"), (b"ended", None)]) == 2
        told = [(one.topic, one.partition, one.key, one.value, list(one.headers)) for one in made.broker.topics]
        assert told == [("log", 2, b"k", b"state", origin.headers), ("log", 2, b"ended", None, origin.headers)]
        if never_answers:
            monkeypatch.setattr(made, "abort_transaction", asyncio.Event().wait)
        await changelog.close()
        made.open = False
        await changelog.close()
        ended = ["fail", "nothing more is sent", *["abort"] * (not never_answers), "stop", "stop"]
        assert made.steps == ["start", "begin", "send", "commit", "begin", *ended]

    asyncio.run(body())


def test_an_offset_joins_with_its_progress_and_up_to_where_input_and_changelog_were_there(monkeypatch):
    """By these a start finds out that the broker has lost records that were read, or states that were written."""
    place = TopicPartition("in", 2)
    monkeypatch.setattr(LeaderEpochs, "safe", {place: 4})

    async def body():
        changelog = Changelog({}, "job", "log", 2, Origin("in"))
        changelog._producer, changelog.end = Producer(), 31
        await changelog.join(5, 9)
        offset, text = changelog._producer.offsets[place]
        assert (offset, progress_of(offset, text), epoch_of(text), states_of(text)) == (5, 9, 4, 31)

    asyncio.run(body())


def test_an_idle_transaction_is_committed_after_an_hour_and_one_with_outputs_never_by_itself(monkeypatch):
    async def body():
        changelog = Changelog({}, "job", "log", 2)
        changelog._producer = Producer()
        steps = changelog._producer.steps
        await changelog.keep_alive()
        assert not steps
        monkeypatch.setattr("streamjobs.worker.changelog.KEEP_ALIVE", -1.0)
        await changelog.keep_alive()
        assert steps == ["join", "commit", "begin"], "the broker is not asked to commit a transaction without a partition"
        changelog.producer()  # outputs join: without the offset of their input they would be sent again
        await changelog.keep_alive()
        assert len(steps) == 3
        await changelog.commit()
        await changelog.keep_alive()
        assert steps[3:] == ["commit", "begin", "join", "commit", "begin"]

    asyncio.run(body())


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_checkpoint_keeps_the_fence_of_a_partition_without_new_states(exactly_once):
    """Without records, and with records that become dead letters: the broker forgets an idle producer, and its fence."""

    async def body():
        worker = Worker(exactly_once=exactly_once)
        delivery = await worker.begin(0)
        await delivery.held[0].checkpoints.take()
        assert worker.kafka.opened[0].kept_alive == 1
        worker.fetch(0, [record._replace(value=b"bad") for record in stream(10)])
        await worker.settle()
        await delivery.held[0].checkpoints.take()
        assert worker.broker.committed == {0: 10} and worker.kafka.opened[0].kept_alive == 2 - exactly_once

    asyncio.run(body())


@pytest.mark.parametrize("refusal", [RuntimeError("no right to write"), ProducerFenced()], ids=["refused", "fenced"])
def test_after_a_refused_output_nothing_is_committed(refusal):
    """It ends the worker, except for a partition that another worker has taken over: that one is released."""

    async def body():
        worker = Worker(exactly_once=True)
        delivery = await worker.begin(0)
        transactions(worker).out.refuse = refusal
        worker.fetch(0, stream(20))
        await asyncio.wait_for(until(lambda: delivery.failed or delivery.taken_over), 5)
        fenced = isinstance(refusal, ProducerFenced)
        found = delivery.taken_over[0].error if fenced else delivery.failed
        assert type(found) is (FencedError if fenced else DeliveryError) and "in.predictions[0]" in str(found)
        assert (delivery.failed is None) == fenced
        worker.fetch(0, stream(20, first=20))
        delivery.raise_barrier()
        await asyncio.wait_for(delivery.revoke("stop"), 5)
        assert worker.broker.steps == [] and worker.broker.committed == {}

    asyncio.run(body())


def test_a_checkpoint_that_waits_for_outputs_of_a_partition_taken_over_does_no_harm():
    async def body():
        worker = Worker(exactly_once=True)
        delivery = await worker.begin(0)
        refused = asyncio.Event()

        async def send_batch(*arguments, **named):
            await refused.wait()
            raise ProducerFenced()

        transactions(worker).out.send_batch = send_batch
        worker.fetch(0, stream(20))
        partition = delivery.partitions[0]
        await asyncio.wait_for(until(lambda: partition.next == 20), 5)
        partition.due.set()
        await asyncio.wait_for(until(lambda: partition.lock._waiters), 5)  # the checkpoint, behind what is handed over
        refused.set()
        await asyncio.gather(*delivery.held[0].tasks)
        assert list(delivery.taken_over) == [0] and delivery.failed is None
        delivery.raise_barrier()
        await asyncio.wait_for(delivery.revoke("revoked"), 5)
        assert delivery.failed is None and worker.broker.steps == []

    asyncio.run(body())


def test_the_broker_gives_a_transaction_three_times_as_long_as_the_longest_checkpoint():
    assert TRANSACTION_TIMEOUT >= 3 * LONGEST_TRANSACTION and TRANSACTION_TIMEOUT > BATCH_TTL
