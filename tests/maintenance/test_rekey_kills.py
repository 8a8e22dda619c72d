"""`rekey` that is killed at any step and started again copies every record once, on fakes of its consumer and producer."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as Place
from hypothesis import given
from hypothesis import strategies as st

from streamjobs.core.messages import Stored
from streamjobs.core.partitioners import murmur2
from streamjobs.errors import SetupError
from streamjobs.kafka import reader
from streamjobs.maintenance import rekey
from streamjobs.maintenance.rekey.writer import Topics, Writer
from streamjobs.worker.failures import DeliveryError, FencedError
from tests.core.streams import settings
from tests.worker.fakes import Broker, FakeProducer

SOURCE = {"topic": "imu", "fields": ["ax"], "key": "device.id", "rekeyed": True}
SETTINGS = settings(source=SOURCE, window=None, head=None, drift=None)
KNOWN = Topics("imu", "imu.by-key", "imu.dlq", [], 1, 3, 2, "source=A copy=B")
COPIES = 3  # partitions of the copy
ONE = st.tuples(st.integers(0, 9), st.sampled_from(["a", "b", "c", None]))  # timestamp, key
RECORDS = st.lists(st.one_of(st.none(), ONE), max_size=8)  # None: a marker, or a record that compaction has removed


class Crash(Exception):
    """The process ends here."""


class Input:
    """The topic, as a consumer."""

    def __init__(self, partitions: Sequence[Sequence[Any]], first: int = 0) -> None:
        self.records = [[stored(number, at, one) for at, one in enumerate(some)] for number, some in enumerate(partitions)]
        self.shown = 1  # partitions that are known at first
        self.first, self.late = first, list[Any]()
        self.at: dict[int, int] = {}

    def assign(self, places: Any) -> None:
        self.at = {}

    def seek(self, place: Any, offset: int) -> None:
        self.at[place.partition] = offset

    def partitions_for_topic(self, topic: str) -> set[int]:
        shown, self.shown = self.shown, len(self.records)
        return set(range(shown))

    async def beginning_offsets(self, places: Any) -> dict[Any, int]:
        return dict.fromkeys(places, self.first)

    async def end_offsets(self, places: Any) -> dict[Any, int]:
        return {place: len(self.records[place.partition]) for place in places}

    def highwater(self, place: Any) -> int:
        return len(self.records[place.partition])

    last_stable_offset = highwater

    async def getmany(self, *places: Any, timeout_ms: int, max_records: int) -> dict[Any, Any]:
        found = {}
        for place in places:
            begin = self.at[place.partition]
            self.at[place.partition] = begin + len(some := self.records[place.partition][begin : begin + 2])
            found[place] = [one for one in some if one is not None]
        for number, record in self.late:  # come after the first poll
            self.records[number].append(stored(number, len(self.records[number]), record))
        self.late = []
        return found


class Output:
    """The copy, its dead letters and the group's offsets; what is not committed ends with the process."""

    def __init__(self) -> None:
        self.copies, self.offsets = list[Any](), dict[int, int]()
        self.left, self.pending, self.bytes = -1, list[Any](), 0

    def step(self) -> None:
        if not self.left:
            self.pending.clear()
            raise Crash
        self.left -= 1

    def place(self, key: bytes) -> int:
        return murmur2(key, COPIES)

    async def send(self, topic: str, partition: int, records: Any) -> None:
        self.step()
        self.pending += [(topic, partition, *one) for one in records]

    async def commit(self, offsets: Mapping[int, int]) -> None:
        self.step()
        assert all(offset >= self.offsets.get(number, 0) for number, offset in offsets.items())
        self.copies += self.pending
        self.offsets |= offsets
        self.pending.clear()


def stored(number: int, at: int, one: tuple[int, str | None] | None) -> Stored | None:
    if one is None:
        return None
    value = {"ax": 1.0, "device": {} if one[1] is None else {"id": one[1]}, "place": (number, at)}
    return Stored("imu", number, at, one[0], None, json.dumps(value).encode(), ())


def run(source: Input, output: Output, warnings: list[str], known: int = 1) -> rekey.Progress:
    names = KNOWN._replace(source_partitions=known)
    copy = rekey._Copy(SETTINGS, None, names, source, output, dict(output.offsets), warnings.append)  # type: ignore[arg-type]
    return asyncio.run(copy.run(asyncio.Event(), lambda _: None, True))


@pytest.fixture(autouse=True)
def positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "position_of", lambda consumer, place: consumer.at.get(place.partition, -1))


@given(
    st.lists(RECORDS, min_size=1, max_size=3),
    st.lists(st.integers(0, 12), max_size=3),
    st.lists(st.booleans(), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 2), ONE), max_size=3),
)
def test_every_record_is_copied_once_in_the_order_of_its_partition(
    partitions: list[list[Any]], crashes: list[int], due: list[bool], late: list[tuple[int, Any]]
) -> None:
    source, output = Input(partitions), Output()
    with pytest.MonkeyPatch.context() as patch:
        turns = cycle(due)
        patch.setattr(rekey._Copy, "_due", lambda self: next(turns))
        for number, crash in enumerate(crashes):
            output.left, source.shown = crash, 1 + number % len(partitions)
            with suppress(Crash):
                run(source, output, [], known=source.shown)
        output.left, warnings, ends = -1, list[str](), [*map(len, source.records)]
        source.late, source.shown = [(number % len(partitions), one) for number, one in late], 1
        run(source, output, [])  # it finds the other partitions while it runs
        known = {(number, at) for number, end in enumerate(ends) for at, one in enumerate(partitions[number][:end]) if one}
        assert {place for place in known if place[0] == 0} <= {tuple(json.loads(one[4])["place"]) for one in output.copies}
        source.late = [(number % len(partitions), one) for number, one in late]
        run(source, output, warnings, known=len(partitions))
        assert known <= {tuple(json.loads(one[4])["place"]) for one in output.copies}
        progress = run(source, output, warnings, known=len(partitions))
    records = [one for some in source.records for one in some if one is not None]
    keyed = {record: json.loads(record.value or b"")["device"].get("id") for record in records}
    copied = [one for one in output.copies if one[0] == "imu.by-key"]
    assert Counter((place, key, value, at, tuple(headers)) for _, place, _, key, value, at, headers in copied) == Counter(
        (murmur2(key.encode(), COPIES), key.encode(), one.value, one.timestamp, ()) for one, key in keyed.items() if key
    )
    letters = [(one[1], one[4]) for one in output.copies if one[0] == "imu.dlq"]
    assert Counter(letters) == Counter((one.partition % 2, one.value) for one, key in keyed.items() if not key)
    orders: dict[Any, list[int]] = {}
    for _, _, _, key, value, *_ in copied:
        number, at = json.loads(value)["place"]
        orders.setdefault((key, number), []).append(at)
    assert all(order == sorted(order) for order in orders.values())
    for number, some in enumerate(source.records):
        behind = max((record.offset + 1 for record in some if record is not None), default=0)
        assert behind <= output.offsets.get(number, 0) <= len(some)
    assert progress.left == 0 and not warnings and not output.pending


def test_records_that_were_deleted_before_they_were_copied_are_told() -> None:
    source, output, warnings = Input([[(1, "a"), (2, "a"), (3, "b")]], first=2), Output(), list[str]()
    output.offsets = {0: 1}
    run(source, output, warnings)
    assert [one[3] for one in output.copies] == [b"b"] and output.offsets == {0: 3}
    assert warnings == ["topic imu[0]: 1 records were deleted before they were rekeyed; raise its retention.ms"]


def test_offsets_behind_the_end_of_the_input_are_refused() -> None:
    output = Output()
    output.offsets = {0: 2}
    with pytest.raises(SetupError, match=r"imu\[0\]: rekey has copied it up to offset 2, but it ends at 1"):
        run(Input([[(1, "a")]]), output, [])
    assert output.copies == []


class Producer(FakeProducer):
    """Of a transaction; steps: what it was asked for."""

    def __init__(self) -> None:
        super().__init__(Broker())
        self.steps, self.open, self.partitions = list[Any](), True, 3
        self._txn_manager = SimpleNamespace(is_in_transaction=lambda: self.open, transactional_id="imu.by-key")

    async def start(self) -> None:
        self.steps.append("start")

    async def begin_transaction(self) -> None:
        self.steps.append("begin")

    async def commit_transaction(self) -> None:
        self.steps.append("commit")

    async def send_offsets_to_transaction(self, offsets: Any, group: str) -> None:
        self.steps.append((dict(offsets), group))

    async def partitions_for(self, topic: str) -> set[int]:
        assert topic == "imu.by-key"
        return set(range(self.partitions))


def test_a_transaction_has_copies_that_were_acknowledged_and_their_offsets() -> None:
    async def body() -> None:
        writer, producer = Writer(SETTINGS, KNOWN), Producer()
        writer._producer = producer  # type: ignore[assignment]
        await writer.open()
        assert writer.place(b"a") == murmur2(b"a", 3)
        producer.hold, producer.partitions = True, 7
        await writer.send("imu.by-key", 1, [("", b"a", b"1", 5, [])])
        committing = asyncio.ensure_future(writer.commit({0: 4}))
        await asyncio.sleep(0)
        assert producer.steps == ["start", "begin"] and writer.bytes > 0
        producer.release()
        await committing
        offsets = {Place("imu", 0): OffsetAndMetadata(4, "source=A copy=B")}, "imu.by-key"
        assert producer.steps == ["start", "begin", offsets, "commit", "begin"] and writer.bytes == 0
        assert writer.place(b"b") == murmur2(b"b", 7), "the copy has grown"
        await writer.commit({})
        assert producer.steps[5:] == ["commit", "begin"] and writer._sent == []

    asyncio.run(body())


REFUSALS = [(KafkaTimeoutError(), DeliveryError), (ProducerFenced(), FencedError), (None, FencedError)]


@pytest.mark.parametrize(("refusal", "raised"), REFUSALS)
def test_nothing_is_committed_once_a_copy_was_refused(refusal: Exception | None, raised: type[Exception]) -> None:
    """aiokafka would commit without it; None: its transaction has ended."""

    async def body() -> None:
        writer, producer = Writer(SETTINGS, KNOWN), Producer()
        writer._producer, producer.refuse, producer.open = producer, refusal, refusal is not None  # type: ignore[assignment]
        await writer.send("imu.by-key", 1, [("", b"a", b"1", 5, [])])
        with pytest.raises(raised, match=r"^topic imu\.by-key"):
            await writer.commit({0: 4})
        assert "commit" not in producer.steps

    asyncio.run(body())


def test_offsets_are_read_behind_the_fence_and_only_those_of_transactions_that_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of the former owner's last transaction would be missing, and its records copied again."""
    steps = list[str]()

    class Asking:
        def __init__(self, options: Any) -> None:
            assert options["isolation.level"] == "read_committed" and options["group.id"] == "imu.by-key"

        def committed(self, places: Any, timeout: float) -> list[Any]:
            steps.append("offsets")
            found = zip(places, answers, strict=True)
            return [SimpleNamespace(partition=one.partition, offset=offset, error=None) for one, offset in found]

        def close(self) -> None:
            """It was no member."""

    def noted(name: str) -> Any:
        async def step(*_: Any) -> None:
            steps.append(name)

        return step

    answers = [7, -1001]
    monkeypatch.setattr(rekey, "Consumer", Asking)
    monkeypatch.setattr(rekey, "_require_same_topics", lambda *_: steps.append("topics"))
    monkeypatch.setattr(rekey, "Writer", lambda *_: SimpleNamespace(open=noted("fence"), close=noted("close")))
    monkeypatch.setattr(reader, "consumer_of", lambda *_, **__: SimpleNamespace(start=noted("start"), stop=noted("stop")))
    made = list[Any]()
    monkeypatch.setattr(rekey, "_Copy", lambda *arguments: made.append(arguments) or SimpleNamespace(run=noted("run")))
    asyncio.run(rekey.copy(SETTINGS, KNOWN._replace(source_partitions=2), asyncio.Event(), print, print))
    assert steps == ["fence", "offsets", "topics", "start", "run", "close", "stop"] and made[0][5] == {0: 7}
    answers = [-1001, -1001]
    assert rekey.committed(SETTINGS, KNOWN._replace(source_partitions=2)) == {} and steps[7:] == ["offsets"]
