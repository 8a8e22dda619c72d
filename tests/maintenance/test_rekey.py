"""What `rekey` needs, and which offsets it does not go on from."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from streamjobs.core.job import Job
from streamjobs.errors import ConfigError, SetupError
from streamjobs.kafka import groups, topics
from streamjobs.kafka.acls import rights
from streamjobs.maintenance import rekey
from streamjobs.maintenance.rekey.writer import Topics
from tests.core.streams import settings

SOURCE = {"topic": "imu", "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity", "key": "device.id"}
KNOWN = Topics("imu", "imu.by-key", "imu.dlq", [], 4, 4, 4, "source=A copy=B")


def job(**source: object) -> Job:
    return Job.from_settings(settings(source=SOURCE | source))


@pytest.mark.parametrize(
    ("metadata", "recreated"),
    [("source=A copy=B", None), ("", None), ("source=Z copy=B", "imu"), ("source=A copy=Z", "imu.by-key")],
)
def test_offsets_of_a_topic_that_was_recreated_are_refused(
    monkeypatch: pytest.MonkeyPatch, metadata: str, recreated: str | None
) -> None:
    commits = {
        TopicPartition("imu", 0): OffsetAndMetadata(7, metadata),
        TopicPartition("x", 0): OffsetAndMetadata(7, "source=Q"),
    }
    monkeypatch.setattr(groups, "commits", lambda client, group: commits)
    if recreated is None:
        rekey._require_same_topics(job(rekeyed=True).settings, KNOWN)
        return
    with pytest.raises(SetupError, match=rf"^topic {recreated}: it was deleted and recreated .*group imu.by-key"):
        rekey._require_same_topics(job(rekeyed=True).settings, KNOWN)


def test_a_job_that_does_not_read_the_copy_is_refused_before_anything_is_asked() -> None:
    one = job()
    with pytest.raises(ConfigError, match=r"set \[source\] rekeyed = true; the job then reads the topic imu.by-key"):
        rekey.prepare(one.settings, "imu.dlq", one.sinks)


def test_rights_of_a_rekeyed_job_are_those_of_both_processes() -> None:
    plain, rekeyed = (rights(one.settings, one.sinks, "User:w") for one in (job(), job(rekeyed=True)))
    named = {(one.resource, one.name): one.operations for one in rekeyed}
    assert named["topic", "imu"] == ("Read", "Describe") and named["group", "imu.by-key"] == ("Read",)
    assert named["topic", "imu.by-key"] == ("Read", "Write", "Describe")
    assert named["topic", "imu.dlq"] == ("Write", "Describe")
    assert named["transactional-id", "imu.by-key"] == ("Write", "Describe")
    assert {(one.resource, one.name): one.operations for one in plain}["topic", "imu"] == ("Read", "Describe")
    assert not any("by-key" in one.name for one in plain)


def test_a_copy_has_one_kind_of_key(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KNOWN._replace(metadata="source=A copy=B key=device.id")
    commits = {TopicPartition("imu", 0): OffsetAndMetadata(7, "source=A copy=B key=%22a%20name%22")}
    monkeypatch.setattr(groups, "commits", lambda client, group: commits)
    with pytest.raises(SetupError, match=r"keyed by field '.a name.', and .source. key is 'device.id'"):
        rekey._require_same_topics(job(rekeyed=True).settings, known)


def test_the_copy_keeps_the_producers_times_and_takes_what_the_input_takes() -> None:
    one = job(rekeyed=True, max_bytes=5 << 20)
    (copy,) = [plan for plan in topics.plan(one.settings, one.sinks, 4) if plan.role == "input"]
    assert copy.name == "imu.by-key" and copy.config["message.timestamp.type"] == "CreateTime"
    assert int(copy.config["max.message.bytes"]) > 5 << 20


def test_offsets_of_idle_partitions_are_committed_again_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the broker forgets them after 7 days, and the next start copies from the beginning; the producer's id too."""
    written: list[dict[int, int]] = []

    async def commit(offsets: dict[int, int]) -> None:
        written.append(offsets)

    writer: Any = SimpleNamespace(commit=commit)
    one = rekey._Copy(job(rekeyed=True).settings, None, KNOWN, None, writer, {0: 5, 1: 6, 2: 7, 3: 8}, print)
    monkeypatch.setattr(one, "_read", {0: 9, 1: 6, 2: 7, 3: -1}.__getitem__)  # -1: not known yet
    asyncio.run(one._commit())
    one._all_at = time.monotonic() - 3700
    asyncio.run(one._commit())
    asyncio.run(one._commit())
    assert written == [{0: 9}, {0: 9, 1: 6, 2: 7, 3: 8}, {}]
