"""Commands that write states: behind a fence, only to a changelog that is as it was read, and never beside a worker."""

import asyncio
from functools import partialmethod
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, NotCoordinatorForGroupError
from confluent_kafka import KafkaError, KafkaException

from streamjobs.errors import SetupError
from streamjobs.kafka import client, preflight
from streamjobs.kafka.layout import Commit
from streamjobs.kafka.topic_id import Origin
from streamjobs.maintenance import changelog_edit
from tests.core.streams import settings

SETTINGS = settings()


class Writer:
    """A changelog that notes what is done with it. ends: of the topic now, by partition."""

    made: ClassVar[dict[int, "Writer"]]
    ends: ClassVar[dict[int, int]]

    def __init__(self, client: Any, name: str, topic: str, partition: int, origin: Origin) -> None:
        self.steps, self.end, self.origin = list[Any](), 0, origin
        self.made[partition] = self

    async def open(self) -> None:
        self.steps.append("open")

    async def write(self, snapshots: list[Any]) -> int:
        self.steps.append(("write", self.end, [*snapshots]))
        return -1

    async def send(self, snapshots: list[Any]) -> int:
        self.steps.append(("send", self.end, [*snapshots]))
        return -1

    async def join(self, *commit: Any) -> None:
        self.steps.append(("join", *commit))

    async def commit(self) -> None:
        self.steps.append("commit")

    async def close(self) -> None:
        self.steps.append("close")


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many there are, each time that this is asked; the last number stays."""
    counts = [0]
    Writer.made, Writer.ends = {}, {0: 40, 1: 9}
    monkeypatch.setattr(changelog_edit, "Changelog", Writer)
    monkeypatch.setattr(changelog_edit, "end_offsets", lambda *_, **__: Writer.ends)
    known = {SETTINGS.source.topic: SimpleNamespace(partitions={0: None, 1: None})}
    monkeypatch.setattr(changelog_edit, "list_topics", lambda *_: known)
    monkeypatch.setattr(changelog_edit, "count_workers", lambda _: counts.pop(0) if len(counts) > 1 else counts[0])
    return counts


def test_pieces_are_written_behind_what_was_read_and_the_offset_joins_the_last_one() -> None:
    changes = {0: [(b"a", b"12345678"), (b"b", b"1"), (b"c", None)], 1: []}
    former = {0: Commit(7, "progress=9 clock=1.0,2.0")}
    read_at = {0: 40, 1: 9}
    changelog_edit.write(SETTINGS, changes, read_at, offsets={0: 7, 1: 5}, former=former, piece_bytes=8)
    first, rest = changes[0][:1], changes[0][1:]
    join = "join", 7, 9, "1.0,2.0", None
    assert Writer.made[0].steps == ["open", ("write", 40, first), ("send", 40, rest), join, "commit", "close"]
    assert Writer.made[1].steps == ["open", ("join", 5, 5, "", None), "commit", "close"]


@pytest.mark.parametrize(
    ("ends", "counts", "says", "steps"),
    [
        ({0: 41, 1: 9}, [0], r"\[0\]: it grew while it was read", ["open", "close"]),
        ({0: 40, 1: 9}, [0, 1], "1 worker is running", ["open", "close"]),  # it started before the fence
        ({0: 40, 1: 9}, [2], "2 workers are running", None),
    ],
)
def test_nothing_is_written_where_a_worker_writes_or_has_written(
    ends: dict[int, int], counts: list[int], says: str, steps: list[str] | None, workers: list[int]
) -> None:
    Writer.ends, workers[:] = ends, counts
    with pytest.raises(SetupError, match=says):
        changelog_edit.write(SETTINGS, {0: [(b"a", b"1")], 1: []}, {0: 40, 1: 9}, offsets={0: 7})
    assert [one.steps for one in Writer.made.values()] == ([] if steps is None else [steps, steps])


def test_states_that_lack_records_with_outputs_are_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker would apply these records to the changed states, without outputs."""
    commits = {0: Commit(5, "progress=9"), 1: Commit(7, "")}
    monkeypatch.setattr(preflight, "commits_of", lambda _: commits)
    monkeypatch.setattr(preflight, "origin_of", lambda *_: Origin("imu"))
    problems = list[str]()
    monkeypatch.setattr(preflight, "changelog_problems", lambda *_: problems)
    with pytest.raises(SetupError, match="states lack up to 4 records"):
        changelog_edit.require_changeable(SETTINGS)
    changelog_edit.require_changeable(SETTINGS, whole=False)
    commits[0] = Commit(9, "progress=9")
    changelog_edit.require_changeable(SETTINGS)
    problems.append("the changelog was recreated")
    with pytest.raises(SetupError, match="was recreated"):
        changelog_edit.require_changeable(SETTINGS)


def test_in_a_new_life_every_partition_learns_of_the_input_and_goes_on_where_it_is_told() -> None:
    commits = {0: Commit(30, "partitions=2"), 1: Commit(31, "partitions=2")}
    origin = Origin("imu", "id").with_new_life()
    changes: dict[int, list[Any]] = {0: [], 1: [(b"a", b"1")]}
    former = {1: Commit(8, "progress=9")}
    changelog_edit.write_life(SETTINGS, changes, {0: 40, 1: 9}, origin, commits, former)
    for number, states, join in ((0, [changelog_edit.OF_NO_KEY], (0, 0, "", None)), (1, changes[1], (8, 9, "", None))):
        writer = Writer.made[number]
        assert writer.steps[1:3] == [("send", Writer.ends[number], states), ("join", *join)]
        assert writer.origin == origin._replace(partitions=2)


@pytest.mark.parametrize(
    ("recreated", "known", "bounds"),
    [
        (False, {}, {0: 40, 1: 9}),  # offsets that the input does not have are another topic's
        (True, {}, {0: 30, 1: 9}),  # and in a later life those that the group has not reached
        (True, {0: "id", 1: "another"}, {1: 0}),
    ],
)
def test_offsets_of_another_topic_are_found_by_its_id_or_because_the_input_does_not_have_them(
    recreated: bool, known: dict[int, str], bounds: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    life = " input-life=5f0c81d2" if recreated else ""
    monkeypatch.setattr(preflight, "commits_of", lambda _: {0: Commit(30, f"partitions=2{life}")})
    monkeypatch.setattr(preflight, "origin_of", lambda *_: Origin("imu", "id"))
    inputs = {number: Origin("imu", one) for number, one in known.items()}
    assert changelog_edit.foreign_offsets(SETTINGS, inputs) == bounds


def test_what_former_processes_left_has_ended_before_states_and_commits_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later it would move the ends, also of a topic that was recreated, and let offsets count that were not seen."""
    asked = []

    def open_everywhere() -> bool:
        return [one.steps for one in Writer.made.values()] == [["open", "close"]] * 2

    def commits_of(_: Any) -> dict[int, Commit]:
        asked.append(open_everywhere())
        return {}

    def end_offsets(settings: Any, topic: str, *, committed_only: bool = True) -> dict[int, int]:
        return {0: 1, 1: 9} if open_everywhere() else {0: 0, 1: 7 if committed_only else 8}  # 0: its topic is a new one

    monkeypatch.setattr(changelog_edit, "end_offsets", end_offsets)
    monkeypatch.setattr(preflight, "commits_of", commits_of)
    monkeypatch.setattr(preflight, "origin_of", lambda *_: Origin("imu"))
    monkeypatch.setattr(preflight, "changelog_problems", lambda *_: [])
    monkeypatch.setattr(Writer, "__init__", partialmethod(Writer.__init__, origin=Origin()))
    assert changelog_edit.begin(SETTINGS) == {0: 1, 1: 9} and asked == [True]


@pytest.mark.parametrize("answers", [True, False])
def test_a_transaction_that_the_broker_does_not_end_is_said(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def opens(self: Writer) -> None:
        await asyncio.sleep(0 if answers else 60)

    ends = {True: {0: 40, 1: 7}, False: {0: 40, 1: 9}}
    monkeypatch.setattr(changelog_edit, "end_offsets", lambda *_, committed_only=True: ends[committed_only])
    monkeypatch.setattr(Writer, "__init__", partialmethod(Writer.__init__, origin=Origin()))
    monkeypatch.setattr(Writer, "open", opens)
    monkeypatch.setattr(changelog_edit, "SETTLED_WITHIN", 0.05)
    with pytest.raises(SetupError, match=rf"\[{'' if answers else '0, '}1\]: the broker has not ended a transaction"):
        changelog_edit.settled_ends(SETTINGS)


def test_a_write_ends_when_readers_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(self: Writer, snapshots: list[Any]) -> int:
        return 41

    ends = iter([{0: 40}, {0: 40}, {0: 41}, {0: 42}, {}])
    monkeypatch.setattr(Writer, "send", send)
    monkeypatch.setattr(changelog_edit, "end_offsets", lambda *_, **__: next(ends))
    changelog_edit.write(SETTINGS, {0: [(b"a", b"1")]}, {0: 40})
    assert [*ends] == [{}]


@pytest.mark.parametrize(
    ("problem", "asked"),
    [
        (TimeoutError(), 2),
        (NotCoordinatorForGroupError(), 2),
        (KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)), 2),
        (GroupAuthorizationFailedError(), 1),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), 1),
    ],
)
def test_a_broker_that_does_not_know_yet_is_asked_again_and_one_that_refuses_is_not(
    problem: Exception, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = list[int]()

    def question() -> int:
        times.append(1)
        if len(times) == 1:
            raise problem
        return 7

    monkeypatch.setattr(client, "unanswered", lambda *_: SetupError("refused"))
    if asked == 1:
        with pytest.raises(SetupError, match="refused"):
            changelog_edit.ask(SETTINGS, question)
    else:
        assert changelog_edit.ask(SETTINGS, question) == 7 and len(times) == asked
        times.clear()
        monkeypatch.setattr(changelog_edit, "RETRY_WITHIN", -1.0)
        with pytest.raises(SetupError, match="refused"):
            changelog_edit.ask(SETTINGS, question)
    assert len(times) == 1


def test_offsets_of_partitions_that_a_recreated_input_lacks_are_refused() -> None:
    """aiokafka would try to commit them again and again, without an error."""
    with pytest.raises(SetupError, match=r"it has 2 partitions, and this job has states in partition 2 too"):
        changelog_edit.write(SETTINGS, {0: [], 2: []}, {0: 40, 2: 7}, offsets={0: 0, 2: 0})
    assert not Writer.made


def test_offsets_of_a_missing_input_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog_edit, "list_topics", lambda *_: {})
    with pytest.raises(SetupError, match=r"topic \w+ \(input\): it does not exist.* 'streamjobs topics create JOB'"):
        changelog_edit.write(SETTINGS, {0: []}, {0: 40}, offsets={0: 0})
    assert not Writer.made
