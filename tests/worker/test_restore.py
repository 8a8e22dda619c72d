"""What a recovery leaves in the local store, whatever the changelog has and wherever the process ends."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjobs.core.messages import Stored, Unread
from streamjobs.errors import SnapshotError
from streamjobs.kafka.topic_id import Origin
from streamjobs.worker import recovery
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.store import MemoryStore

ONE = st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.one_of(st.none(), st.binary(min_size=1, max_size=3)))
RECORDS = st.lists(st.one_of(st.none(), ONE), max_size=12)  # None: a marker, or a record that compaction has removed
METRICS = Metrics("in")
ID = "id"  # of the changelog
Records = Sequence[tuple[bytes, bytes | None] | None]


class Crash(Exception):
    """The process ends here."""


class Unlogged(MemoryStore):
    """A store that ends the process at its nth step, and then has of writes that were not flushed as many as it likes."""

    def __init__(self, crash_at: int = -1, survive: int = 0) -> None:
        super().__init__()
        self.left, self.survive, self.unflushed = crash_at, survive, list[Any]()

    def step(self) -> None:
        if not self.left:
            kept, self.data, self.offsets, self.marked = self.unflushed[: self.survive], {}, {}, {}
            for arguments, named in kept:
                super().write(*arguments, **named)
            raise Crash
        self.left -= 1

    def write(self, partition: int, items: Any, offset: int, **named: Any) -> None:
        self.step()
        assert named["logged"] is False, "a logged write would keep the offset and lose what was not logged before"
        self.unflushed.append(((partition, list(items), offset), named))
        super().write(*self.unflushed[-1][0], **named)

    def flush(self, partition: int) -> None:
        self.step()
        self.survive = len(self.unflushed)


class Log:
    """A changelog of one partition, as a consumer; `again` is what it has when it is read from its beginning again."""

    def __init__(self, records: Records, headers: Mapping[int, Any] | None = None, again: Records | None = None) -> None:
        self.records, self.headers, self.again = list(records), headers or {}, again
        self.settings: dict[str, Any] = {}

    def states(self) -> dict[bytes, bytes]:
        return {key: value for key, value in dict(filter(None, self.records)).items() if value is not None}

    def consumer(self, **settings: Any) -> "Log":
        self.settings, self.at = settings, -1
        return self

    def assign(self, places: list[Any]) -> None:
        (self.place,) = places

    def seek(self, place: Any, offset: int) -> None:
        if self.at >= 0 and self.again is not None:
            self.records = list(self.again)
        self.at = offset

    def pause(self, place: Any) -> None:
        """Nothing more is asked for."""

    async def start(self) -> None:
        """It is always there."""

    stop = start

    async def getmany(self, *places: Any, timeout_ms: int) -> dict[Any, list[Stored]]:
        begin = self.at
        self.at = min(begin + 3, len(self.records))
        some = list(enumerate(self.records[begin : self.at], begin))
        found = [Stored("log", 0, at, 0, *one, self.headers.get(at, ())) for at, one in some if one is not None]
        return {self.place: found} if found else {}

    def restore(self, store: MemoryStore, **named: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recovery, "AIOKafkaConsumer", self.consumer)
            patch.setattr(recovery, "position_of", lambda consumer, place: consumer.at)
            patch.setattr(recovery, "CHUNK_BYTES", 4)
            asyncio.run(recovery.restore({}, "log", {0: (0, len(self.records))}, store, METRICS, ID, **named))


@given(RECORDS, RECORDS, st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_a_store_has_the_newest_states_wherever_its_recovery_was_killed(
    before: Records, more: Records, crash_at: int, survive: int, slow: bool
) -> None:
    log, store = Log(before), Unlogged(crash_at, survive)
    named = {"tombstones": -1.0} if slow else {}
    try:
        log.restore(store, **named)
        log.records += more  # it goes on from there
        log.restore(store, **named)
    except Crash:
        log.records += more
        store.left = -1
        log.restore(store, **named)
    assert store.data.get(0, {}) == log.states()
    if log.records:
        assert store.reached(0) == len(log.records) - 1 and store.marks(0).keys() == {"changelog", "whole"}
        assert store.survive == len(store.unflushed) and log.settings["isolation_level"] == "read_committed"


def test_a_tombstone_that_is_removed_while_its_partition_is_read_ends_its_key_all_the_same() -> None:
    read, compacted = [(b"a", b"1"), (b"b", b"1"), None, (b"b", b"2")], [(b"a", b"1"), None, None, (b"b", b"2")]
    log, store = Log([*read[:1], (b"ended", b"1"), *read[1:]], again=[compacted[0], None, *compacted[1:]]), Unlogged()
    log.restore(store, tombstones=-1.0)
    assert store.data[0] == log.states() == {b"a": b"1", b"b": b"2"}


@pytest.mark.parametrize("again", [False, True])
def test_a_batch_that_cannot_be_read_ends_the_recovery(again: bool) -> None:
    """Its keys would start over; and when a partition is read again, they would count as ended."""
    bad = Unread("log", 0, 4, 0, None, b"batch", ())
    bad.problem = "expected records"
    chunk = recovery._Keys(9) if again else recovery._Chunk(9, "", 0.0)
    with pytest.raises(SnapshotError, match="expected records"):
        chunk.add([Stored("log", 0, 3, 0, b"a", b"1", ()), bad])


@pytest.mark.parametrize(("known", "input_id", "life"), [("", "", "L"), ("L2", "", "L2"), ("", "i0", "")])
def test_the_input_of_the_newest_state_is_marked_and_a_life_stays_with_its_input(
    known: str, input_id: str, life: str
) -> None:
    """Older releases write no life, and no name: what is not known must not stay next to another topic's id."""
    store = Unlogged()
    store.write(0, [], 0, logged=False, marks={"source": input_id or "i1", "topic": "old", "life": "L"})
    headers = {1: Origin("imu", "i0").headers, 2: [("streamjobs-input", b"i1")]}
    if known:
        headers[2].append(("streamjobs-input-life", known.encode()))
    Log([None, (b"a", b"1"), (b"b", b"1")], headers).restore(store)
    marks = store.marks(0)
    assert (marks["source"], marks.get("topic"), marks.get("life", "")) == ("i1", None, life)


def test_a_chunk_is_written_once_it_is_full_and_the_mark_says_when_everything_was_there() -> None:
    store = Unlogged()
    store.write(0, [(b"a", b"1")], 0, logged=False, marks={"changelog": ID, "whole": "5"})
    Log([None, (b"b", b"12345"), None, (b"c", b"1"), (b"d", b"1"), (b"e", b"12"), (b"f", b"1"), None]).restore(
        store, tombstones=2e9
    )
    written = [
        (offset, [key for key, _ in items], "whole" in named["marks"]) for (_, items, offset), named in store.unflushed[1:]
    ]
    assert written == [(3, [b"b", b"c"], False), (6, [b"d", b"e", b"f"], False), (7, [], True)]
    assert float(store.marks(0)["whole"]) > 5
