"""The watchdog: it ends a worker that waits for nothing, and only that."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from streamjobs.errors import SetupError
from streamjobs.kafka import topics
from streamjobs.kafka.patches.connections import LastAnswer, UnknownTopic
from streamjobs.kafka.patches.instances import TakenInstance
from streamjobs.kafka.topic_id import MISSING, Origin
from streamjobs.settings.sections import Settings
from streamjobs.worker import watchdog
from streamjobs.worker.delivery import TakenOver
from streamjobs.worker.failures import DeliveryError, FencedError
from streamjobs.worker.health import STALLED
from streamjobs.worker.state_folder import lock_folder
from streamjobs.worker.watchdog import Watchdog

SETTINGS = Settings.model_validate(
    {"broker": {"url": "kafka://nowhere:1"}, "source": {"topic": "in", "dim": 1}, "learner": {"name": "okfeb"}}
)

CHANGELOG = topics.changelog(SETTINGS)
SINKS = {"predictions": "out", "dlq": "letters"}


def watched(
    looks: int, change: Callable[[Any, Any], None] = lambda delivery, metrics: None, *, barrier: bool = True
) -> None:
    """Look so many times without any patience, with a change before each look."""
    delivery, metrics = SimpleNamespace(barrier=barrier, epoch=1, taken_over={}, topics=SINKS), SimpleNamespace(remaining=5)
    watchdog = Watchdog(SETTINGS, delivery, metrics, patience=0.0)

    async def look() -> None:
        for _ in range(looks):
            change(delivery, metrics)
            await watchdog.check()

    asyncio.run(look())


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The brokers that were asked; they answer."""
    asked: list[Any] = []
    monkeypatch.setattr(topics, "connect", asked.append)
    return asked


def test_a_worker_without_partitions_that_nothing_moves_ends(answering: list[Any]) -> None:
    with pytest.raises(DeliveryError, match="the broker answers, but joining the group, fencing or recovery is stuck"):
        watched(2)
    assert answering == [SETTINGS.broker]


def test_a_worker_at_work_is_left_alone(answering: list[Any]) -> None:
    watched(5, barrier=False)
    assert not answering


def test_a_worker_with_an_instance_id_that_another_one_has_taken_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TakenInstance, "name", "one")
    with pytest.raises(SetupError, match="another worker of job streamjobs has started with 'one'"):
        watched(1, barrier=False)


@pytest.mark.parametrize("remade", [False, True])
def test_a_worker_whose_state_directory_is_removed_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remade: bool
) -> None:
    monkeypatch.setattr(watchdog, "FOLDER_EVERY", 0.0)
    settings = SETTINGS.model_copy(update={"state": SETTINGS.state.model_copy(update={"directory": str(tmp_path)})})
    with lock_folder(settings):
        one = Watchdog(settings, SimpleNamespace(barrier=False, epoch=1, taken_over={}), SimpleNamespace(remaining=0))
        asyncio.run(one.check())
        (tmp_path / settings.job.name).rename(tmp_path / "kept")  # its file stays open, and its inode taken
        if remade:
            lock_folder(settings).__enter__()
        with pytest.raises(SetupError, match=r"directory: the folder of job .* was removed or replaced .* start it again"):
            asyncio.run(one.check())


def test_restoring_and_rebalancing_are_progress(answering: list[Any]) -> None:
    def restored(delivery: Any, metrics: Any) -> None:
        metrics.remaining -= 1

    def rebalanced(delivery: Any, metrics: Any) -> None:
        delivery.epoch += 1

    watched(5, restored)
    watched(5, rebalanced)
    assert not answering


def test_a_silence_of_all_brokers_is_reported_once_and_its_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LastAnswer, "at", time.monotonic() - STALLED - 5)
    looks = []

    def answered(delivery: Any, metrics: Any) -> None:
        looks.append(1)
        if len(looks) == 4:
            LastAnswer.at = time.monotonic()

    with capture_logs() as lines:
        watched(6, answered, barrier=False)
    assert [line["event"] for line in lines] == [
        "no broker answers",
        "a broker answers again",
    ]
    assert lines[0]["seconds"] == STALLED + 5


def test_a_pause_during_a_silence_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LastAnswer, "at", time.monotonic() - STALLED - 5)
    delivery = SimpleNamespace(barrier=False, epoch=1, topics=SINKS, taken_over={})
    one = Watchdog(SETTINGS, delivery, SimpleNamespace(remaining=5))

    async def look() -> None:
        await one.check()
        one._checked_at -= 1020
        await one.check()
        assert [line["event"] for line in lines] == ["no broker answers", "the worker did not run"]
        LastAnswer.at = time.monotonic()
        await one.check()

    with capture_logs() as lines:
        asyncio.run(look())
    assert [line["event"] for line in lines[2:]] == ["a broker answers again"]


def test_a_worker_that_was_frozen_gets_its_time_again(answering: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGSTOP of 17 minutes: everything that waited for a part of them may have moved, and could not be seen."""
    monkeypatch.setattr(LastAnswer, "at", time.monotonic() - 1020)
    delivery = SimpleNamespace(
        barrier=True, epoch=1, topics=SINKS, taken_over={3: TakenOver(time.monotonic() - 1020, FencedError("taken over"))}
    )
    one = Watchdog(SETTINGS, delivery, SimpleNamespace(remaining=5))

    async def look() -> None:
        one._checked_at -= 1020
        one._progress_at -= 1020
        await one.check()
        await one.check()
        one._progress_at -= one.patience
        with pytest.raises(DeliveryError, match="the worker has had no partitions for 120 s"):
            await one.check()

    one._progress = (True, 1, 5)
    with capture_logs() as lines:
        asyncio.run(look())
    assert [(line["event"], line["seconds"]) for line in lines] == [("the worker did not run", 1020)]


def test_a_partition_that_another_worker_writes_is_the_groups_to_take_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the group never does, the worker ends: it would leave that partition to nobody for ever."""

    def take_over(delivery: Any, metrics: Any) -> None:
        delivery.taken_over = {3: TakenOver(time.monotonic(), FencedError("taken over"))}

    watched(5, take_over, barrier=False)
    monkeypatch.setattr(watchdog, "TAKEN_OVER_FOR", -1.0)
    with pytest.raises(FencedError, match="taken over"):
        watched(1, take_over, barrier=False)


def test_without_a_broker_it_goes_on_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def silent(servers: str) -> None:
        asked.append(servers)
        raise SetupError(f"broker {servers}: no answer")

    monkeypatch.setattr(topics, "connect", silent)
    watched(5)
    assert len(asked) == 4


def asked_for_ids(monkeypatch: pytest.MonkeyPatch, *answers: dict[str, str]) -> None:
    """A watchdog that learned the ids "same" at its start gets these answers, the last one again and again."""
    left, asked = list(answers), []
    monkeypatch.setattr(watchdog, "IDS_EVERY", 0.0)
    monkeypatch.setattr(watchdog, "GONE_FOR", 0.0)

    def present_ids(broker: Any, names: list[str]) -> dict[str, str]:
        asked.append(names)
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(watchdog, "present_ids", present_ids)

    async def look() -> None:
        delivery = SimpleNamespace(barrier=False, epoch=1, taken_over={}, topics=SINKS)
        origin = Origin("in", "same", "same")
        one = Watchdog(SETTINGS, delivery, SimpleNamespace(remaining=0), origin=origin)
        while len(asked) < len(answers) + 2:
            await one.check()
            await asyncio.sleep(0.01)

    try:
        asyncio.run(look())
    finally:
        assert asked and all(names == ["in", CHANGELOG, "out", "letters"] for names in asked)


@pytest.mark.parametrize("answer", ["other", "same", ""])
def test_a_worker_whose_input_was_recreated_under_it_ends(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    ids = {"in": answer, CHANGELOG: "same"}
    if answer == "other":
        with pytest.raises(SetupError, match=r"recreated since .*expected id same, got other.*forget-offsets"):
            asked_for_ids(monkeypatch, ids)
    else:
        asked_for_ids(monkeypatch, ids)


@pytest.mark.parametrize("answer", ["other", "same", ""])
def test_a_worker_whose_changelog_was_recreated_under_it_ends(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    ids = {"in": "same", CHANGELOG: answer}
    if answer == "other":
        with pytest.raises(
            SetupError, match=r"recreated since .*expected id same, got other.*state restore JOB --from-local"
        ):
            asked_for_ids(monkeypatch, ids)
    else:
        asked_for_ids(monkeypatch, ids)


def test_a_recreated_output_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes new outputs as before; those that it had are lost."""
    first = dict.fromkeys(["in", CHANGELOG, "out", "letters"], "same")
    with capture_logs() as lines:
        asked_for_ids(monkeypatch, first, first | {"out": ""}, first | {"out": "other"}, first | {"out": "other"})
    assert [(line["event"], line["topic"]) for line in lines] == [("an output topic was recreated", "out")]


def test_a_deleted_changelog_ends_the_worker_if_the_next_answer_confirms_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there, gone = {"in": "same", CHANGELOG: "same"}, {"in": "same", CHANGELOG: MISSING}
    asked_for_ids(monkeypatch, gone, there, gone, there)
    with pytest.raises(SetupError, match=r"it was deleted, and this job's states with it .*state restore JOB --from-local"):
        asked_for_ids(monkeypatch, there, gone)


@pytest.mark.parametrize(
    ("gone", "says"),
    [
        ("in", r"in \(input\): it was deleted .*forget-offsets"),
        ("letters", r"letters \(dlq\): it was deleted .*topics create"),
    ],
)
def test_a_deleted_input_or_output_ends_the_worker_if_the_next_answer_confirms_it(
    monkeypatch: pytest.MonkeyPatch, gone: str, says: str
) -> None:
    there = dict.fromkeys(["in", CHANGELOG, "out", "letters"], "same")
    asked_for_ids(monkeypatch, there | {gone: MISSING}, there, there | {gone: MISSING}, there)
    with pytest.raises(SetupError, match=says):
        asked_for_ids(monkeypatch, there, there | {gone: MISSING})


def test_a_topic_that_a_client_misses_is_asked_after_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(watchdog, "IDS_AGAIN", 0.0)
    monkeypatch.setattr(watchdog, "present_ids", lambda broker, names: asked.append(names) or dict.fromkeys(names, "same"))

    async def look() -> None:
        delivery = SimpleNamespace(barrier=False, epoch=1, taken_over={}, topics=SINKS)
        one = Watchdog(SETTINGS, delivery, SimpleNamespace(remaining=0), origin=Origin("in", "same", "same"))
        for _ in range(3):
            await one.check()
            await asyncio.sleep(0.01)
        assert not asked
        monkeypatch.setattr(UnknownTopic, "at", time.monotonic())
        for _ in range(3):
            await one.check()
            await asyncio.sleep(0.01)
        assert len(asked) == 1

    asyncio.run(look())


RIGHT = "topic in.predictions: expected the right to Write."


@pytest.mark.parametrize(
    ("answer", "missing", "says"),
    [
        ("other", [], "state restore"),
        ("other", [RIGHT], "state restore"),
        ("same", [], "refused"),
        ("same", [RIGHT], f"{RIGHT} Nothing is lost"),
        ("", [], "refused"),
    ],
)
def test_a_refusal_comes_from_a_recreated_changelog_or_a_right_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, answer: str, missing: list[str], says: str
) -> None:
    monkeypatch.setattr(watchdog, "present_ids", lambda broker, names: {"in": "same", CHANGELOG: answer})
    monkeypatch.setattr(watchdog, "lacking", lambda settings, job: missing)
    delivery = SimpleNamespace(topics={}, core=SimpleNamespace(job=None))
    one = Watchdog(SETTINGS, delivery, SimpleNamespace(), origin=Origin("in", "same", "same"))
    assert says in str(asyncio.run(one.cause_of(DeliveryError("the broker refused snapshots"))))


@pytest.mark.parametrize(("now", "ends"), [(4, True), (2, False), (None, False)])
def test_a_worker_whose_input_got_partitions_ends_with_the_commands_to_run(
    monkeypatch: pytest.MonkeyPatch, now: int | None, ends: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(watchdog, "IDS_EVERY", 0.0)
    monkeypatch.setattr(topics, "count_partitions", lambda broker, topic: asked.append(topic) or now)
    monkeypatch.setattr(watchdog, "present_ids", lambda broker, names: dict.fromkeys(names, ""))

    async def look() -> None:
        delivery = SimpleNamespace(barrier=False, epoch=1, taken_over={}, topics=SINKS)
        one = Watchdog(SETTINGS, delivery, SimpleNamespace(remaining=0), partitions=2)
        while len(asked) < 3:
            await one.check()
            await asyncio.sleep(0.01)

    if ends:
        with pytest.raises(SetupError, match=r"2 before, 4 now.* topics grow .* state repartition") as raised:
            asyncio.run(look())
        assert raised.value.exit_code == 3 and "recreate" not in str(raised.value)
    else:
        asyncio.run(look())
    assert set(asked) == {"in"}


def test_new_partitions_are_asked_after_more_often_than_every_half_minute() -> None:
    assert watchdog.IDS_EVERY <= 30.0


def test_a_changelog_that_deletes_states_is_logged_once_each_time_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    policies, asked = ["compact", "delete", "compact,delete", "an error (no answer)", "delete"], []
    monkeypatch.setattr(watchdog, "IDS_EVERY", 0.0)
    monkeypatch.setattr(watchdog, "POLICY_EVERY", 0.0)
    monkeypatch.setattr(watchdog, "present_ids", lambda broker, names: dict.fromkeys(names, "same"))
    monkeypatch.setattr(topics, "connect", lambda broker: (None, {}))
    monkeypatch.setattr(topics, "setting_of", lambda admin, *of: asked.append(of) or policies[len(asked) - 1])

    async def look() -> None:
        delivery = SimpleNamespace(barrier=False, epoch=1, taken_over={}, topics=SINKS)
        one = Watchdog(SETTINGS, delivery, SimpleNamespace(remaining=0), origin=Origin("in", "same", "same"))
        while len(asked) < len(policies):
            await one.check()
            await asyncio.sleep(0.01)

    with capture_logs() as lines:
        asyncio.run(look())
    assert set(asked) == {(CHANGELOG, "cleanup.policy")}
    assert [line["event"] for line in lines] == ["states will be lost"] * 2
    assert f"--entity-name {CHANGELOG} --add-config cleanup.policy=compact" in lines[0]["reason"]
