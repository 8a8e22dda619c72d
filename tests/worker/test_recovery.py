"""Where recovery begins, and what it tells of the keys it has written."""

import asyncio
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from aiokafka.errors import KafkaConnectionError
from faust.types import TP

from streamjobs.errors import SetupError
from streamjobs.kafka.topic_id import MISSING, Origin
from streamjobs.kafka.topics import NO_LIMITS
from streamjobs.worker import recovery
from streamjobs.worker.app import WorkerApp
from streamjobs.worker.recovery import ChangelogRecovery, WrittenKeys, _Keys, _unread
from streamjobs.worker.store import MemoryStore


def test_keys_written_counts_a_key_once_whatever_is_written_of_it() -> None:
    draw = np.random.default_rng(5)
    keys, truth, total = WrittenKeys(), set[bytes](), 0
    for _ in range(50):
        numbers = draw.integers(200, size=draw.integers(60))
        chunk = {b"k%d" % number: None if draw.random() < 0.2 else b"state" for number in numbers}
        truth = (truth | {key for key, value in chunk.items() if value}) - {key for key, value in chunk.items() if not value}
        total += keys.take(chunk)
        assert total == len(truth)


@pytest.mark.parametrize(
    ("whole", "changelog", "first", "begins"),
    [
        ("1000", "id", 0, 0),  # its states may have been ended since
        ("3000", "id", 0, 6),
        ("", "id", 0, 6),  # of an older release
        ("1000", "other", 0, 6),  # it may have the only copy
        ("1000", "id", 3, 6),  # the same
    ],
)
def test_a_store_that_may_lack_tombstones_is_read_again_unless_it_may_have_the_only_copy(
    whole: str, changelog: str, first: int, begins: int
) -> None:
    store = MemoryStore()
    store.write(0, [(b"k", b"state")], 5, marks={"changelog": changelog, "whole": whole or None})
    ((begin, chunk),) = _unread("log", {0: (first, 9)}, store, "id", 5000.0, 2000.0).values()
    assert (begin, store.get(0, b"k")) == (begins, b"state" if begins else None)
    assert chunk.whole == ("" if begins else "5000")


def test_keys_without_a_state_in_the_changelog_are_ended_in_a_store_that_may_have_missed_it() -> None:
    store, keys = MemoryStore(), _Keys(9)
    store.write(0, [(key, b"state") for key in (b"a", b"b", b"c")], 8)
    keys.add([SimpleNamespace(key=key, value=value) for key, value in ((b"a", b"1"), (b"b", b"1"), (b"b", None))])
    asyncio.run(keys.end_others(0, store))
    assert keys.values == {b"b": None, b"c": None}


def test_a_store_that_is_ahead_of_its_changelog_is_refused() -> None:
    store = MemoryStore()
    store.write(0, [(b"k", b"state")], 8)
    assert _unread("log", {0: (0, 9)}, store, "id", 0.0, 0.0) == {}
    with pytest.raises(SetupError, match="holds changelog offset 8, but the changelog ends at 8"):
        _unread("log", {0: (0, 8)}, store, "id", 0.0, 0.0)


def test_how_long_ago_each_partition_had_all_tombstones() -> None:
    store = MemoryStore()
    for partition, (whole, changelog) in enumerate([("3000", "id"), ("1000", "id"), ("3000", "other"), ("4000", "id")]):
        store.write(partition, [(b"k", b"state")], 5, marks={"changelog": changelog, "whole": whole})
    todo = _unread("log", dict.fromkeys(range(5), (0, 9)), store, "id", 5000.0, 2000.0)
    assert [chunk.age for _, chunk in todo.values()] == [2000.0, 0.0, -np.inf, 1000.0, 0.0]  # 1 is cleared, 4 is empty
    assert [begin for begin, _ in todo.values()] == [6, 0, 6, 6, 0]


@pytest.mark.parametrize(
    ("mark", "committed", "asked", "left", "refused"),
    [
        ("now", "", "now", 7, ""),
        ("former", "now", "now", None, ""),  # its states are in the present one too
        ("former", "former", "now", 7, "recreated since"),
        ("", "now", "now", None, ""),  # of an older release
        ("", "", "now", 7, ""),  # the same, and it may have the only copy
        ("now", "now", "another", 7, "recreated since"),
        ("now", "now", MISSING, 7, ""),  # as a node that is behind may say
    ],
)
def test_a_store_of_another_changelog_is_an_old_copy_only_where_the_group_has_committed_with_this_one(
    mark: str, committed: str, asked: str, left: int | None, refused: str
) -> None:
    async def committed_changelogs(partitions: Any) -> dict[int, str]:
        return {number: committed for number in partitions}

    store, delivery = MemoryStore(), SimpleNamespace(origin=Origin("in", "id", "now"))
    store.write(0, [(b"k", b"state")], 7, marks={"changelog": mark or None})
    consumer = SimpleNamespace(committed_changelogs=committed_changelogs)
    app: Any = SimpleNamespace(delivery=delivery, changelog="log", store=store, consumer=consumer)
    with pytest.raises(SetupError, match=refused) if refused else nullcontext():
        asyncio.run(WorkerApp._require_same_changelog(app, {0}, asked))
    assert store.reached(0) == left


def test_a_changelog_is_known_up_to_where_it_was_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its producer refuses a broker that puts states below, and commits say how far the changelog went."""
    tp, changelog, calls = TP("log", 0), SimpleNamespace(end=0), list[Any]()

    async def answer(*arguments: Any) -> Any:
        return {tp: 31} if arguments[0] == tp else {0: changelog}

    async def restore(client: Any, topic: str, bounds: Any, *_: Any) -> None:
        calls.append((topic, bounds, changelog.end))

    monkeypatch.setattr(recovery, "restore", restore)
    monkeypatch.setattr("streamjobs.worker.app.present_ids", lambda broker, names: dict.fromkeys(names, "now"))
    delivery = SimpleNamespace(fence=answer, origin=Origin("in", "id", "now"), limits=NO_LIMITS, failed=None)
    delivery.mark_restored = lambda *restored: calls.append(restored)
    store = MemoryStore()
    store.write(0, [], 7, marks={"changelog": "now", "life": "5f0c81d2"})
    consumer = SimpleNamespace(highwaters=answer, earliest_offsets=answer)
    app: Any = SimpleNamespace(delivery=delivery, changelog="log", store=store, consumer=consumer)
    app.broker_section, app.client, app.metrics, app.leaders = None, {}, None, None
    app._require_same_changelog = partial(WorkerApp._require_same_changelog, app)
    assert asyncio.run(WorkerApp.fence_and_restore(app, {0}))
    assert calls == [("log", {0: (31, 31)}, 31), ({0: changelog}, "5f0c81d2")]


def test_deleted_records_of_the_changelog_are_refused_only_where_the_store_lacks_them() -> None:
    for reached in (None, 3, 4):
        store = MemoryStore()
        if reached is not None:
            store.write(0, [(b"k", b"state")], reached)
        if reached == 4:
            assert len(_unread("log", {0: (5, 9)}, store, "id", 0.0, 0.0)) == 1
            continue
        with pytest.raises(SetupError, match=r"\[0\] before offset 5"):
            _unread("log", {0: (5, 9)}, store, "id", 0.0, 0.0)


@pytest.mark.parametrize(
    ("error", "revoked", "tries", "fails"),
    [
        (KafkaConnectionError("nothing there"), False, 2, False),
        (KafkaConnectionError("nothing there"), True, 1, False),  # its next owner may write already: never fenced again
        (SetupError("another changelog"), False, 1, True),
    ],
)
def test_a_recovery_that_a_broker_does_not_answer_begins_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, revoked: bool, tries: int, fails: bool
) -> None:
    """The first attempt fails. A worker that was frozen meets the timeouts of all requests when it wakes up."""
    tried: list[int] = []
    failed: list[Exception] = []
    signal = asyncio.Event()
    signal.set()

    async def recover(generation: int) -> None:
        tried.append(generation)
        if len(tried) == 1:
            raise error

    async def wait_for_stopped(event: asyncio.Event) -> bool:
        return not event.is_set()

    async def at_once(work: Any) -> None:
        await work

    app = SimpleNamespace(delivery=SimpleNamespace(fail=failed.append, fencing=not revoked))
    parts = {"wait_for_stopped": wait_for_stopped, "signal_recovery_start": signal, "_generation_id": 7, "_wait": at_once}
    service = SimpleNamespace(
        should_stop=False,
        app=app,
        active_tps={("log", 0)},
        _recover=recover,
        sleep=lambda _: asyncio.sleep(0),
        **parts,
    )
    asyncio.run(ChangelogRecovery._restart_recovery.fun(service))
    assert tried == [7] * tries and failed == [error] * fails


@pytest.mark.parametrize("restored", [True, False])
@pytest.mark.parametrize("held", [{TP("log", 0)}, set()])
def test_the_input_begins_only_behind_states_that_were_restored(restored: bool, held: set[Any]) -> None:
    """Partitions may be revoked meanwhile, and their next owner begin."""
    steps = list[Any]()

    def noted(name: str, answer: Any = None) -> Any:
        async def step(*arguments: Any) -> Any:
            steps.append((name, *arguments))
            return answer

        return step

    consumer = SimpleNamespace(resume_flow=lambda: steps.append("flow"), perform_seek=noted("seek"))
    app = SimpleNamespace(fence_and_restore=noted("restore", restored), consumer=consumer)
    app.flow_control = SimpleNamespace(resume=lambda: steps.append("resume"))
    service: Any = SimpleNamespace(app=app, active_tps=held, on_recovery_completed=noted("completed"))
    service._set_recovery_started = lambda: None
    asyncio.run(ChangelogRecovery._recover(service, 7))
    begun = ["resume", "flow", *[("seek",)] * (not held), ("completed", 7)]
    assert steps == [("restore", {one.partition for one in held}), *(begun if restored else [])]
