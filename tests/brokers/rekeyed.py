"""An input whose keys are inside its values: records without keys on partitions at random, and `rekey` at work on them."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent, committed_by, create, new_producer, send, until
from tests.brokers.load import SOURCE, START
from tests.brokers.workers import CHECKOUT, Worker
from tests.exit_codes import ExitCode
from tests.running import with_bytecode

REKEY = ("-m", "streamjobs", "rekey")
BY_KEY: dict[str, Any] = {**SOURCE, "key": "device.id", "rekeyed": True}
LATENESS = 60.0  # seconds of event time: longer than the stream, because nothing orders records of several partitions
MOST_LOOKS = 200
UNSETTLED = {"isolation.level": "read_uncommitted", "enable.auto.commit": False}  # else it waits behind a dead process
EACH_TRANSACTION = 10  # records


def keyed_inside(records: Iterator[Sent], seed: int = 1) -> Iterator[Sent]:
    """The records without keys, on partitions at random; every eleventh has a header, and one whose value is null."""
    rnd = random.Random(seed)
    for number, record in enumerate(records):
        body = json.loads(record.value or b"") | {"device": {"id": (record.key or b"").decode()}}
        headers: list[tuple[str, Any]] = [("trace", b"%d" % number), ("null", None)] if number % 11 == 0 else []
        yield Sent(None, json.dumps(body).encode(), rnd.randrange(PARTITIONS), record.timestamp, headers)


def flushing(keys: int) -> Iterator[Sent]:
    """A sample of each key so late that no other one waits any more."""
    at = START + 2 * LATENESS
    for key in range(keys):
        body = {"x": [0.0] * 4, "ts": at, "label": None}
        yield Sent(b"key-%d" % key, json.dumps(body).encode(), 0, round(at * 1000))


def create_base(job: KafkaJob, partitions: int = PARTITIONS) -> str:
    """The topic whose records have no keys."""
    name = job.settings.source.base_topic
    create(job.admin, NewTopic(name, partitions, 1))
    return name


def produce(job: KafkaJob, records: Sequence[Sent]) -> None:
    producer, problems = new_producer(job.bootstrap), []
    for record in records:
        send(producer, job.settings.source.base_topic, record, lambda error, _: problems.append(error) if error else None)
    assert producer.flush(60) == 0 and not problems


def rekey(job: KafkaJob, *options: str) -> tuple[ExitCode, str]:
    """The exit code of `rekey` in a process of its own, and what it printed."""
    words = [sys.executable, *REKEY, str(job.path), *options]
    done = subprocess.run(words, cwd=CHECKOUT, env=with_bytecode(), capture_output=True, text=True, timeout=120, check=False)
    return ExitCode(done.returncode, done.stdout + done.stderr), done.stdout + done.stderr


def uncommitted(job: KafkaJob) -> int:
    """Records of the copy, and markers, that no reader of committed records sees."""
    seen = job.ends(committed_only=True)
    return sum(end - seen[number] for number, end in job.ends(committed_only=False).items())


def _left_open(job: KafkaJob) -> int:
    """`uncommitted` of a frozen process, once a commit that it asked for before is through: a kill would not undo that."""
    before = -1
    while (now := uncommitted(job)) not in (0, before):
        before = now
        time.sleep(0.3)
    return now


def copied(job: KafkaJob) -> int:
    """Records of the base topic whose offsets are committed."""
    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": job.input, "log_level": 0, **UNSETTLED})
    try:
        places = [TopicPartition(job.settings.source.base_topic, number) for number in range(PARTITIONS)]
        return sum(max(0, one.offset) for one in committed_by(consumer, places))
    finally:
        consumer.close()


def kill_in_a_transaction(job: KafkaJob, name: str) -> int:
    """Start `rekey` and kill it while records that it has written are uncommitted; gives how many these are.

    It is frozen to look: what is open then stays open until the kill.
    """
    small = {"STREAMJOBS_STATE__CHECKPOINT_RECORDS": str(EACH_TRANSACTION)}
    process, before = Worker(job, name, program=REKEY, **small), copied(job)
    try:
        until(lambda: copied(job) > before or process.assert_running(), "a commit", 120, every=0.01)
        for look in range(MOST_LOOKS):
            process.assert_running()
            process.freeze()
            if open_now := _left_open(job):
                assert process.kill() == -signal.SIGKILL
                return open_now
            process.wake()
            time.sleep(0.01 * (1 + look % 7))  # a busy machine gives it a turn in between
    finally:
        process.end()
    raise AssertionError(f"no transaction was open at {MOST_LOOKS} looks:\n{process.text()[-2000:]}")
