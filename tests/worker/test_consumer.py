"""The consumer between two rebalances: partitions that are taken away while it is busy with them."""

import asyncio
import time
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaTimeoutError, LeaderNotAvailableError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.types import TP

from streamjobs.core.state import snapshot
from streamjobs.errors import SetupError
from streamjobs.kafka.layout import Commit
from streamjobs.kafka.patches.batches import LeaderEpochs
from streamjobs.kafka.topic_id import Origin, epoch_of, progress_of, states_of
from streamjobs.worker import consumer as consumer_module
from streamjobs.worker.changelog import NO_ORIGIN
from streamjobs.worker.checkpoint import FormerSections
from streamjobs.worker.consumer import Consumer, ConsumerThread
from streamjobs.worker.failures import DeliveryError, RecordsReplaced, failure_line
from streamjobs.worker.recovery import SCANNED, learned_up_to
from streamjobs.worker.store import MemoryStore

PARTITIONS = {0, 1, 2}


class Delivery:
    """What the consumer asks of `streamjobs.worker.delivery.Delivery`."""

    def __init__(self) -> None:
        self.barrier, self.failed, self.epoch = False, None, 0
        self.started: list[dict[int, int]] = []
        self.former: dict[int, str] = {}
        self.moments: dict[int, str] = {}

    def end_of_changelog(self, number: int) -> int:
        return 30

    def raise_barrier(self) -> None:
        self.barrier, self.epoch = True, self.epoch + 1

    def lower_barrier(self) -> None:
        self.barrier = False

    def assign(self, starts: dict[int, int], progress: dict[int, int]) -> bool:
        self.started.append(starts)
        return True

    def fail(self, error: BaseException) -> None:
        self.failed = error


class Rebalancing(Consumer):  # type: ignore[misc]
    """On aiokafka's own record of what is assigned; `lost` is taken away while the offsets to start at are asked for."""

    def __init__(self) -> None:
        self.subscription, self.lost = SubscriptionState(), set[int]()
        self.subscription.subscribe({"in"})
        self.give(PARTITIONS)
        self._thread = SimpleNamespace(
            seek_wait=self._seek_in_thread, _consumer=SimpleNamespace(_subscription=self.subscription)
        )
        self._fetching, self.fetched_to, self.flow_active = asyncio.Lock(), {}, True
        self._progress: dict[int, int] = {}
        self._committed_offset, self._read_offset = {}, {}
        self.app: Any = SimpleNamespace(
            delivery=Delivery(), source="in", changelog="job-state-changelog", waiting=frozenset(), idle=frozenset()
        )

    def give(self, numbers: set[int]) -> None:
        self.subscription.assign_from_subscribed([TopicPartition("in", number) for number in numbers])

    async def _start_offsets(self) -> dict[TP, int]:
        starts = {TP("in", one.partition): 7 for one in self.subscription.assigned_partitions()}
        self.give({tp.partition for tp in starts} - self.lost)
        return starts

    async def _seek_in_thread(self, starts: dict[TP, int]) -> None:
        for tp, offset in starts.items():
            self.subscription.seek(TopicPartition(*tp), offset)


def test_a_partition_that_is_taken_away_while_the_input_begins_waits_for_the_next_rebalance() -> None:
    async def taken_away() -> None:
        consumer = Rebalancing()
        delivery, consumer.lost = consumer.app.delivery, {1}
        await consumer.perform_seek()
        assert delivery.barrier and not delivery.started and delivery.failed is None
        await consumer.perform_seek()  # as the recovery after the next rebalance does
        assert delivery.started == [{0: 7, 2: 7}] and not delivery.barrier

    asyncio.run(taken_away())


def not_begun(error: Exception) -> Delivery:
    """After three attempts to begin the input that end with an error."""

    async def _start_offsets() -> dict[TP, int]:
        raise error

    async def refused() -> Delivery:
        consumer = Rebalancing()
        consumer._start_offsets = _start_offsets  # type: ignore[method-assign]
        for _ in range(3):
            with suppress(LeaderNotAvailableError):
                await consumer.perform_seek()
        delivery: Delivery = consumer.app.delivery
        return delivery

    return asyncio.run(refused())


def test_an_input_that_never_begins_is_no_progress_to_the_watchdog() -> None:
    delivery = not_begun(LeaderNotAvailableError())
    assert delivery.barrier and delivery.epoch == 1 and delivery.failed is None


def test_an_input_with_a_partition_without_a_leader_names_the_command_that_names_it() -> None:
    failed = not_begun(KafkaTimeoutError("Failed to get offsets by times in 30000 ms")).failed
    assert isinstance(failed, DeliveryError) and failure_line(failed) == (
        "topic in: cannot read its offsets (KafkaTimeoutError: Failed to get offsets by times in 30000 ms); 'streamjobs "
        "check JOB --online' names a partition without a leader. Nothing is lost: a restart continues from the last "
        "checkpoint."
    )


def test_the_end_of_a_partition_that_was_taken_away_is_unknown() -> None:
    async def asked() -> None:
        consumer = Rebalancing()
        consumer.subscription.subscription.assignment.state_value(TopicPartition("in", 1)).highwater = 9
        assert consumer.end_of(1) == 9
        consumer.give({0, 2})
        assert consumer.end_of(1) is None

    asyncio.run(asked())


class Thread:
    """A group's commits of three partitions, and a topic that begins at 50 and ends at 90."""

    def __init__(self, commits: dict[int, Commit]) -> None:
        self.commits, self.committed, self.end_of_changelog = commits, dict[int, tuple[int, int]](), 30
        self.kept = 80  # where the log has the records of the leader epochs that it is asked for

    async def call_thread(self, call: Any, *arguments: Any) -> Any:
        return await call(*arguments)

    def _ensure_consumer(self) -> "Thread":
        return self

    def assignment(self) -> set[TP]:
        return {TP("in", number) for number in PARTITIONS}

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 50)

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: 90 if place.topic == "in" else self.end_of_changelog for place in places}

    async def commits_of_group(self, topic: str, partitions: Any) -> dict[int, Commit]:
        return self.commits

    async def commit_exactly(self, offsets: dict[TP, int], progress: int = 0, moment: str = "") -> bool:
        self.committed |= {tp.partition: (offset, progress) for tp, offset in offsets.items()}
        return True

    async def ends_of_epochs(self, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {place: self.kept for place in epochs}


def test_the_group_passes_records_that_were_deleted_before_states_had_them() -> None:
    """Else commands that change states would wait for the group for ever where no record comes any more."""

    async def begun() -> None:
        consumer, lost = Rebalancing(), list[int]()
        consumer._thread = thread = Thread(
            {number: Commit(offset, "partitions=3 progress=90 clock=9.5,2.5") for number, offset in ((0, 40), (1, 60))}
        )
        consumer.app.conf = SimpleNamespace(topic_partitions=3, id="job")
        delivery = consumer.app.delivery
        delivery.origin, delivery.store = NO_ORIGIN, MemoryStore()
        unread = list[int]()
        counts = {"replay_lost_records_total": lost, "records_deleted_total": unread}
        delivery.metrics = SimpleNamespace(count=lambda name, records: counts[name].append(records))
        assert await Consumer._start_offsets(consumer) == {TP("in", 0): 50, TP("in", 1): 60, TP("in", 2): 50}
        assert thread.committed == {0: (50, 90), 2: (50, 0)} and lost == [10] and unread == [0]
        assert delivery.moments == {0: "", 1: "9.5,2.5", 2: ""}, "that of a deleted record does not count"
        consumer._count_deleted(TP("in", 0), 40, 95)
        assert lost == [10, 50] and unread == [0, 5]

    asyncio.run(begun())


def test_a_changelog_that_ends_before_what_was_written_ends_the_worker() -> None:
    """Without a local store nothing else shows it: its keys would go on with older states."""

    async def begun(states: str, end: int = 30) -> None:
        consumer = Rebalancing()
        consumer._thread = thread = Thread({0: Commit(60, "partitions=3"), 1: Commit(60, f"partitions=3 {states}")})
        thread.end_of_changelog = end
        consumer.app.conf = SimpleNamespace(topic_partitions=3, id="job")
        delivery = consumer.app.delivery
        delivery.origin, delivery.store = NO_ORIGIN, MemoryStore()
        await Consumer._start_offsets(consumer)

    asyncio.run(begun("states=30"))
    asyncio.run(begun("of a release without it"))
    asyncio.run(begun("states=31", end=31))  # another worker has written since this one's recovery
    with pytest.raises(
        SetupError, match=r"^topic job-state-changelog\[1\]: .* up to offset 31, but the changelog ends at 30: "
    ):
        asyncio.run(begun("states=31"))


@pytest.mark.parametrize(
    ("metadata", "kept", "refused"),
    [
        ("progress=90", 80, ""),
        ("progress=91", 80, "has read up to offset 91, but the topic ends at 90"),
        ("leader-epoch=4 progress=80", 80, ""),
        ("leader-epoch=4 progress=80", 79, "lost the records from offset 79 on, which this job has read up to 80"),
        ("leader-epoch=4 progress=80", -1, ""),  # a broker that cannot tell
        ("partitions=2", 80, "laid out for 2"),
        ("another topic", 80, "deleted and recreated"),
    ],
)
def test_a_worker_refuses_an_input_that_is_not_as_its_states_have_learned_it(
    metadata: str, kept: int, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeaderEpochs, "safe", {})

    async def begun() -> dict[TP, int]:
        consumer = Rebalancing()
        consumer._thread = thread = Thread({0: Commit(60, metadata), 1: Commit(60, metadata), 2: Commit(60, metadata)})
        if "partitions" in metadata:
            del thread.commits[2]
        thread.kept = kept
        consumer.app.conf = SimpleNamespace(topic_partitions=3, id="job")
        delivery = consumer.app.delivery
        delivery.origin, delivery.store = Origin("in", "an id"), MemoryStore()
        delivery.store.write(0, [], 5, marks={"source": "another id" if metadata == "another topic" else "an id"})
        return await Consumer._start_offsets(consumer)

    if refused:
        with pytest.raises(SetupError, match=refused):
            asyncio.run(begun())
    else:
        assert set(asyncio.run(begun()).values()) == {60}


@pytest.mark.parametrize(
    ("epoch", "begin", "end", "replaced", "safe"),
    [
        (4, 70, 0, False, 4),  # the same leader: the broker is not asked
        (4, 60, 65, True, 4),  # aiokafka went back
        (5, 70, 65, True, 4),
        (5, 70, 70, False, 5),
        (5, 70, -1, False, 5),  # a broker that cannot tell
    ],
)
def test_records_behind_a_new_leader_are_taken_where_its_log_has_what_was_read(
    epoch: int, begin: int, end: int, replaced: bool, safe: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tp = TP("in", 0)
    monkeypatch.setattr(LeaderEpochs, "safe", {tp: 4})
    monkeypatch.setattr(LeaderEpochs, "newest", {tp: epoch.to_bytes(4, "big")})

    async def fetched() -> Any:
        consumer = Rebalancing()
        consumer._thread = thread = Thread({})
        thread.kept, consumer._expected = end, {tp: 70}
        await consumer._require_read_records(tp, begin)
        return consumer.app.delivery.failed

    failed = asyncio.run(fetched())
    assert isinstance(failed, RecordsReplaced) if replaced else failed is None
    assert LeaderEpochs.safe == {tp: safe}


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete", None])
def test_records_that_compaction_removed_are_counted_in_the_log(policy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two fetches and inside of one; 50 is the first record that retention has left."""
    asked, tp = list[Any](), TP("in", 0)
    monkeypatch.setattr(consumer_module, "setting_of", lambda broker, topic, name: asked.append(name) or policy)

    async def fetched() -> None:
        consumer: Any = Rebalancing()
        consumer._thread, consumer._expected, consumer._compacted, consumer._removed = Thread({}), {tp: 45}, None, {}
        consumer.app.broker_section, consumer._count_deleted = None, lambda *deleted: asked.append(deleted)
        consumer.position_of = lambda number: None
        for offsets in ([45, 46], [50, 51], [54, 59], [60], [100]):
            await Consumer._log_skipped(consumer, tp, [SimpleNamespace(offset=offset) for offset in offsets])

    with structlog.testing.capture_logs() as logged:
        asyncio.run(fetched())
    assert asked == [(tp, 47, 50), "cleanup.policy"], "deleted records are another line, and the policy is asked once"
    lines = [
        (one["partition"], one["offsets"])
        for one in logged
        if one["event"] == "a compacted input has offsets without records"
    ]
    assert lines == ([] if policy in ("delete", None) else [(0, 6), (0, 45)])


@pytest.mark.parametrize("answers", [True, False])
def test_a_question_for_the_states_that_nobody_answers_leaves_the_rebalance_as_it_is(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would go to aiokafka, which goes on without the partitions' recovery."""
    places = [[TopicPartition(topic, 0), TopicPartition("job-state-changelog", 0)] for topic in ("in", "a-in")]
    commits = {TopicPartition(topic, 0): OffsetAndMetadata(5, "states=31") for topic in ("in", "a-in")}

    def learned_from(broker: Any, changelog: str, names: list[str]) -> str:
        if not answers:
            raise SetupError("no answer")
        return "a-in"

    monkeypatch.setattr(consumer_module.groups, "described", lambda *_: SimpleNamespace(members=places))
    monkeypatch.setattr(consumer_module.groups, "commits", lambda *_: commits)
    monkeypatch.setattr(consumer_module, "learned_from", learned_from)

    async def asked() -> Any:
        consumer = Rebalancing()
        consumer.app.conf, consumer.app.client, consumer.app.broker_section = SimpleNamespace(id="job"), None, None
        await consumer._require_one_input()
        return consumer.app.delivery.failed

    assert (asyncio.run(asked()) is not None) == answers


@pytest.mark.parametrize(
    ("learned", "with_changelog", "continues"),
    [
        ("in", {"in", "a-in"}, "in"),
        ("a-in", {"in", "a-in"}, "a-in"),
        ("", {"in", "a-in"}, "a-in"),  # the first by name
        ("", {"in"}, "in"),  # the other one would wait for a partition of the changelog
        ("", set(), "a-in"),
    ],
)
def test_of_two_topics_under_one_name_each_worker_takes_the_same_one(
    learned: str, with_changelog: set[str], continues: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changelog = TopicPartition("job-state-changelog", 0)
    held = {topic: [TopicPartition(topic, 0), *([changelog] * (topic in with_changelog))] for topic in ("in", "a-in")}
    commits = {TopicPartition(topic, 0): OffsetAndMetadata(5, "states=31" * (topic == learned)) for topic in held}
    monkeypatch.setattr(consumer_module.groups, "described", lambda *_: SimpleNamespace(members=list(held.values())))
    monkeypatch.setattr(consumer_module.groups, "commits", lambda *_: commits)

    async def asked(source: str) -> Any:
        consumer = Rebalancing()
        consumer.app.source, consumer.app.conf, consumer.app.client = source, SimpleNamespace(id="job"), None
        await consumer._require_one_input()
        return consumer.app.delivery.failed

    for source in held:
        failed = asyncio.run(asked(source))
        assert (failed is None) == (source == continues)
        assert failed is None or f"reads topic {continues}, and this one reads {source}" in str(failed)


@pytest.mark.parametrize("refusal", [None, CommitFailedError(), IllegalStateError()])
def test_a_commit_that_a_rebalance_refuses_does_not_count(
    refusal: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, committed = TopicPartition("in", 0), dict[TopicPartition, Any]()
    monkeypatch.setattr(LeaderEpochs, "safe", {place: 4})

    async def commit(offsets: dict[TopicPartition, Any]) -> None:
        if refusal is not None:
            raise refusal
        committed.update(offsets)

    delivery = SimpleNamespace(origin=Origin("in"), former=FormerSections(), end_of_changelog=lambda number: 31)
    thread: Any = SimpleNamespace(
        app=SimpleNamespace(delivery=delivery), _ensure_consumer=lambda: SimpleNamespace(commit=commit)
    )
    assert asyncio.run(ConsumerThread.commit_exactly(thread, {TP("in", 0): 5}, 9)) == (refusal is None)
    if refusal is None:
        offset, text = committed[place]
        assert (offset, progress_of(offset, text), epoch_of(text), states_of(text)) == (5, 9, 4, 31)


def test_no_offset_is_committed_of_a_partition_that_was_taken_away() -> None:
    async def committed() -> None:
        consumer = Rebalancing()
        consumer._thread = thread = Thread({})
        assert [await consumer.commit_offset(number, 7, 9, "") for number in (0, 5)] == [True, False]
        assert thread.committed == {0: (7, 9)}

    asyncio.run(committed())


def test_a_job_file_that_changed_while_states_lacked_records_is_logged_with_their_offsets() -> None:
    async def begun() -> list[dict[str, Any]]:
        consumer = Rebalancing()
        consumer._thread = Thread(
            {
                0: Commit(50, "partitions=3 settings=old progress=90 sections=stuck.5e1f0a"),
                1: Commit(50, "partitions=3 settings=new progress=90"),
                2: Commit(60, "partitions=3 settings=old"),
            }
        )
        consumer.app.conf = SimpleNamespace(topic_partitions=3, id="job")
        delivery = consumer.app.delivery
        delivery.origin, delivery.store = NO_ORIGIN._replace(settings="new"), MemoryStore()
        with structlog.testing.capture_logs() as lines:
            await Consumer._start_offsets(consumer)
        assert delivery.former == {0: "stuck.5e1f0a", 1: "", 2: ""}
        return [line for line in lines if line["event"] == "the job file changed while states lacked records"]

    (line,) = asyncio.run(begun())
    assert (line["partition"], line["first"], line["end"]) == (0, 50, 90)


def test_looking_for_what_states_have_learned_ends_in_time() -> None:
    """It holds the start back: with many large states the watchdog would end the worker, at every start again."""
    store = MemoryStore()
    for number in range(SCANNED + 1):
        state = snapshot.encode(snapshot.Snapshot(bytes(16), "{}", {("in", 0): number}, [], []))
        store.write(0, [(b"%09d" % number, state)], number)
    assert asyncio.run(learned_up_to(store, time.monotonic() + 60, "in", 0)) == SCANNED + 1
    assert asyncio.run(learned_up_to(store, time.monotonic(), "in", 0)) == 0


@pytest.mark.parametrize(
    ("committed", "says"),
    [
        (Commit(55, ""), "records that a key has already applied are skipped"),
        (Commit(80, ""), "no state has learned the 9 offsets from 71 on, and they are not read"),
        (Commit(71, ""), ""),
        (Commit(80, "partitions=3"), ""),  # dead letters follow: they leave no state
    ],
)
def test_an_offset_that_another_program_set_is_logged_with_what_states_have(committed: Commit, says: str) -> None:
    async def begun() -> list[dict[str, Any]]:
        consumer = Rebalancing()
        consumer._thread = Thread({0: committed, 1: Commit(60, "partitions=3"), 2: Commit(60, "partitions=3")})
        consumer.app.conf = SimpleNamespace(topic_partitions=3, id="job")
        delivery = consumer.app.delivery
        delivery.origin, delivery.store = NO_ORIGIN, MemoryStore()
        for key, newest in ((b"a", 70), (b"b", 60)):
            state = snapshot.encode(snapshot.Snapshot(bytes(16), '{"fields":"AbcDefGhi"}', {("in", 0): newest}, [], []))
            delivery.store.write(0, [(key, state)], 5)
        with structlog.testing.capture_logs() as lines:
            await Consumer._start_offsets(consumer)
        return [line for line in lines if line["event"] == "another program set the group's offset"]

    lines = asyncio.run(begun())
    assert [line["offset"] for line in lines] == [committed.offset] * bool(says)
    assert all(says in line["meaning"] and line["learned_up_to"] == 71 for line in lines)


@pytest.mark.parametrize(("described", "refused"), [('{"dim":"3"}', True), ('{"dim":"3","fields":"AbcDefGhi"}', False)])
def test_other_fields_are_refused_for_states_without_names_too(described: str, refused: bool) -> None:
    """Else records would be learned by some keys in one order and by others in another, and neither could be read."""
    old = snapshot.encode(snapshot.Snapshot(bytes(16), described, {("in", 0): 40}, [], []))

    async def begun(fields: str) -> None:
        consumer = Rebalancing()
        consumer._thread = Thread({0: Commit(60, "partitions=3 fields=5e1f0a"), 1: Commit(60, "partitions=3 fields=5e1f0a")})
        consumer.app.conf = SimpleNamespace(topic_partitions=3, id="job")
        delivery = consumer.app.delivery
        delivery.origin, delivery.store = NO_ORIGIN._replace(fields=fields), MemoryStore()
        delivery.store.write(0, [(b"k", old)], 7)  # 1 has had dead letters only
        await Consumer._start_offsets(consumer)

    asyncio.run(begun("5e1f0a"))
    asyncio.run(begun(""))
    with (
        pytest.raises(SetupError, match=r"^topic in\[0\]: .* other fields .*5e1f0a, got 77d2c1")
        if refused
        else nullcontext()
    ):
        asyncio.run(begun("77d2c1"))


@pytest.mark.parametrize("stopping", [True, False])
def test_a_fetch_that_is_cancelled_ends_the_loop_of_fetches_silently_only_while_the_worker_stops(stopping: bool) -> None:
    async def cancelled() -> int:
        consumer, fetched = Rebalancing(), 0

        async def fetch(timeout: float) -> None:
            nonlocal fetched
            fetched += 1
            if fetched == 3:
                raise asyncio.CancelledError

        consumer._wait_next_records = fetch  # type: ignore[method-assign, assignment]
        consumer._stopped, consumer._crashed = asyncio.Event(), asyncio.Event()
        consumer.app.should_stop = stopping
        with pytest.raises(asyncio.CancelledError) if not stopping else nullcontext():
            await consumer._drain_messages(SimpleNamespace(should_stop=False))
        await consumer._drain_messages(SimpleNamespace(should_stop=True))
        return fetched

    assert asyncio.run(cancelled()) == 3
