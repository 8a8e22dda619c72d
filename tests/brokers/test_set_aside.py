"""A key with a damaged state on a real broker: set aside, reported by the commands, and brought back without a loss."""

import json
import signal
import urllib.request
from collections import defaultdict
from typing import Any

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from streamjobs.core.state import snapshot
from tests.brokers.damage import CHECKSUM, damage_changelog, damage_stores, flipped
from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob, Sent, until
from tests.brokers.killed_command import killed_after
from tests.brokers.load import samples
from tests.brokers.verification import replayed
from tests.brokers.workers import Worker, run_until_done, running_worker
from tests.commands.jobs import output_of
from tests.faults.case import scrape_metrics

KEYS, HALF = 8, 400
BAD = (1, b"key-5")


def values_of(messages: Any) -> dict[bytes, list[bytes]]:
    """Values of a sink's messages by key, in order, without repeats."""
    values: dict[bytes, list[bytes]] = defaultdict(list)
    seen = set()
    for message in messages:
        name = dict(message.headers())["streamjobs-id"]
        if name not in seen:
            values[message.key()].append(message.value())
        seen.add(name)
    return values


def letters_of(job: KafkaJob, *, committed_only: bool) -> dict[int, dict[str, bytes]]:
    """Headers of the dead letters with the reason `state`, by the offset of their record."""
    letters = {}
    for message in job.sink("dlq", committed_only=committed_only):
        headers = dict(message.headers())
        assert headers["streamjobs-error-reason"] == b"state" and message.key() == BAD[1]
        assert int(headers["streamjobs-error-offset"]) not in letters, "a record became two letters"
        letters[int(headers["streamjobs-error-offset"])] = headers
    return letters


def first_half(job: KafkaJob, fork_server: ForkServer) -> tuple[list[Sent], Worker]:
    """A worker has applied the first half; the records to come."""
    records = list(samples(2 * HALF, keys=KEYS))
    job.produce(records[:HALF])
    return records[HALF:], run_until_done(job, fork_server=fork_server)


def second_half(job: KafkaJob, fork_server: ForkServer, records: list[Sent]) -> Worker:
    """A worker applies the rest; it stays healthy, and reports one key that is set aside."""
    with running_worker(job, fork_server=fork_server) as worker:
        job.produce(records)
        job.wait_until_done([worker])
        metrics = scrape_metrics(worker)
        port = worker.events("serving /metrics and /health")[0]["port"]
        code, health = _get(port)
        assert worker.stop() == 0
    assert metrics["streamjobs_keys_set_aside"] == 1
    assert metrics["streamjobs_records_dead_lettered_total{reason=state}"] == _of_bad(records)
    assert code == 200 and health["keys_set_aside"] == 1 and health["healthy"]
    (line,) = worker.events("key set aside")
    assert line["partition"] == BAD[0] and CHECKSUM in line["reason"] and "state restore" in line["action"]
    assert BAD[1].decode() not in worker.text()
    return worker


def _get(port: int) -> tuple[int, dict[str, Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
        return answer.status, json.load(answer)


def _of_bad(records: list[Sent]) -> int:
    return sum(record.key == BAD[1] for record in records)


@pytest.mark.parametrize(
    ("guarantee", "steps"),
    [pytest.param("at_least_once", ["open"], marks=pytest.mark.long), ("exactly_once", ["send", "commit"])],
)
def test_a_key_damaged_in_the_changelog_is_set_aside_and_comes_back_from_a_copy(
    make_job: MakeJob, fork_server: ForkServer, guarantee: str, steps: list[str]
) -> None:
    """The command that brings it back is killed between its steps, and repeated."""
    job, once = make_job("aside", **LEARNING, job={"guarantee": guarantee}), guarantee == "exactly_once"
    rest, _ = first_half(job, fork_server)
    copy = job.folder / "copy"
    assert output_of("state", "export", job.path, "--all", "-o", copy)[0] == 0
    damaged, begin = flipped(job.snapshots()[BAD]), job.ends()[BAD[0]]
    damage_changelog(job, *BAD, damaged)
    second_half(job, fork_server, rest)
    inputs = [record for record in job.inputs() if record.key == BAD[1]]
    letters = letters_of(job, committed_only=once)
    assert list(letters) == [record.offset for record in inputs if record.offset >= begin]
    assert job.snapshots()[BAD] == damaged

    code, text = output_of("state", "verify", job.path)
    assert code == 4 and "1 key ('key-5'[1])" in text and CHECKSUM.rstrip(".") in text and "state reset JOB KEY" in text
    code, text = output_of("check", job.path, "--online")
    assert code == 0 and "'key-5'[1]" in text and "1 key cannot be read" in text
    for words in (("state", "show", job.path, "key-5"), ("drift", "relearn", job.path, "key-5")):
        code, text = output_of(*words)
        assert code == 1 and "key 'key-5' in partition 1" in text and "state restore JOB KEY" in text, text

    for step in steps:
        assert killed_after(step, "state", "restore", job.path, "key-5", "--copy", copy) == -signal.SIGKILL
        assert (job.snapshots()[BAD] == damaged) == (step != "commit")
    code, text = output_of("state", "restore", job.path, "key-5", "--copy", copy)
    assert code == 0, text
    code, text = output_of("dlq", "redrive", job.path, "--reason", "state")
    assert code == 0 and f"{len(letters)} of {len(letters)}" in text
    run_until_done(job, fork_server=fork_server)
    assert output_of("state", "verify", job.path)[0] == 0
    truth = replayed(job.core, [one for one in job.inputs() if "streamjobs-redriven" not in dict(one.headers)])
    predictions: dict[bytes, list[bytes]] = defaultdict(list)
    for _, key, value, _, _ in truth.answers["predictions"].values():
        predictions[key or b""].append(value or b"")
    assert values_of(job.sink("predictions", committed_only=once)) == predictions
    assert _without_offsets(job.snapshots().pop(BAD)) == _without_offsets(truth.snapshots.pop(BAD))
    assert {place: data for place, data in job.snapshots().items() if place != BAD} == truth.snapshots


def _without_offsets(data: bytes) -> bytes:
    return snapshot.encode(snapshot.decode(data)._replace(offsets={}))


def test_a_key_damaged_in_a_local_store_starts_over_after_a_reset(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("aside-store", **LEARNING)
    rest, worker = first_half(job, fork_server)
    stored, begin = job.snapshots(), job.ends()[BAD[0]]
    assert damage_stores(worker.state, BAD[1]) == 1
    second_half(job, fork_server, rest)
    assert job.snapshots()[BAD] == stored[BAD] and output_of("state", "verify", job.path)[0] == 0
    letters = letters_of(job, committed_only=False)
    inputs = [record for record in job.inputs() if record.key == BAD[1] and record.offset >= begin]
    assert list(letters) == [record.offset for record in inputs]
    assert output_of("state", "reset", job.path, "key-5")[0] == 0
    assert output_of("dlq", "redrive", job.path, "--reason", "state")[0] == 0
    run_until_done(job, fork_server=fork_server)
    fresh = [one.value for one in advance(job.core, Live(job.core), inputs).outputs if one.sink == "predictions"]
    assert values_of(job.sink("predictions"))[BAD[1]][-len(fresh) :] == fresh
    until(lambda: job.lag() == 0, "nothing is left")


def test_a_local_store_gives_back_what_the_changelog_has_lost(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("aside-local", **LEARNING)
    _, worker = first_half(job, fork_server)
    stored = job.snapshots()
    damage_changelog(job, *BAD, stored[BAD][:-9])
    assert output_of("state", "verify", job.path)[0] == 4
    code, text = output_of("state", "restore", job.path, "key-5", "--directory", worker.state)
    assert code == 0 and "key key-5 in partition 1" in text, text
    assert job.snapshots() == stored and output_of("state", "verify", job.path)[0] == 0
    code, text = output_of("state", "restore", job.path, "key-5", "--from-local")
    assert code == 2 and "KEY can only be combined with" in text
    code, text = output_of("state", "restore", job.path, "key-99", "--directory", worker.state)
    assert code == 2 and "no state in" in text and "within 4 minutes" in text  # perhaps it is not written yet
    damage_changelog(job, *BAD, stored[BAD][:-9])
    code, text = output_of("state", "reset", job.path, "key-5")
    assert code == 0 and "1 state could not be read" in text and "no earlier one is learned again" not in text, text
