"""Jobs on the hash core: states and outputs are a hash of the records, so that a test can compute both itself."""

from typing import Any

from tests.brokers.fixtures import MakeJob
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent
from tests.brokers.workers import HASH
from tests.worker.fake_core import STATE, fold

ONCE = (*HASH, "--once")


def hash_job(make_job: MakeJob, name: str, **options: Any) -> KafkaJob:
    """A job whose topics are those of the hash core: predictions and dlq. Each checkpoint writes every changed state."""
    options["state"] = {"replay": "0s", **options.get("state", {})}
    return make_job(name, source={"dim": 1}, head={"name": "rls"}, **options)


def numbers(count: int, keys: int = 8) -> list[Sent]:
    """Values 0, 1, 2, ... of keys in turn; key k in partition k % 4."""
    return [Sent(b"k%d" % (n % keys), b"%d" % n, n % keys % PARTITIONS, 1_700_000_000_000 + n) for n in range(count)]


def states(job: KafkaJob) -> dict[bytes, list[int]]:
    """(last offset, count, hash) of every key in the changelog."""
    return {key: list(STATE.unpack_from(data))[1:] for (_, key), data in job.snapshots().items()}


def expected(job: KafkaJob) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for record in job.inputs():
        assert record.key is not None and record.value is not None
        state = found.setdefault(record.key, [-1, 0, 0])
        fold(state, int(record.value))
        state[0] = record.offset
    return found
