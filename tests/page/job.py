"""A worker at work for the tests of the page: the demo's job on librdkafka's mock broker, hostile keys and bad records."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from streamjobs.demo.background import PARTITIONS
from streamjobs.demo.job import FILE, demo_job
from streamjobs.demo.mock import MockBroker
from streamjobs.demo.player import Player, key_of
from streamjobs.kafka import topics
from tests.running import with_bytecode

HOSTILE = ("<script>document.title='owned'</script>", "\"'><img src=x onerror=\"document.title='owned'\">")
TWO = tuple(map(key_of, (2, 4)))  # people whose records they send as well
BAD = (b"{", b'{"ts":1,"ax":"<b>1</b>"}')  # each a dead letter
DAMAGED = b"damaged"  # a key with stored bytes that cannot be read; `Demo.send` sends a record of it
WITHIN = 120.0  # seconds for the worker to be ready, loops compiled


class Demo(NamedTuple):
    """The worker, and where its page is."""

    process: "subprocess.Popen[bytes]"
    port: int
    servers: str
    topic: str

    def send(self, key: bytes) -> None:
        """A good record of this key, to partition 0."""
        _, _, _, value = Player(self.servers, self.topic, 1.0).ready[0]
        _produce(self.servers, self.topic, key, value)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def demo_worker(
    folder: Path, seconds: float = 4.0, *, share: float = 0.2, hostile: Sequence[str] = HOSTILE
) -> Iterator[Demo]:
    """A worker that gets a part of the demo's recordings within some seconds, and runs on.

    share: of the recordings; hostile: keys that send the records of people as well.
    """
    with MockBroker() as broker:
        env = {
            "STREAMJOBS_BROKER__URL": broker.url,
            "STREAMJOBS_STATE__DIRECTORY": str(folder / "state"),
            "STREAMJOBS_METRICS__PORT": "0",
        }
        job = demo_job(env)
        servers, topic, changelog = (
            broker.url.removeprefix("kafka://"),
            job.settings.source.topic,
            topics.changelog(job.settings),
        )
        broker.create([topic, *job.sinks.values(), changelog])
        _produce(servers, changelog, DAMAGED, b"SJ")
        log = folder / "worker.log"
        words = [sys.executable, "-m", "streamjobs", "run", str(FILE)]
        with log.open("wb") as output:
            process = subprocess.Popen(words, env={**os.environ, **with_bytecode(), **env}, stdout=output, stderr=output)
        try:
            port = _ready(process, log)
            _play(servers, topic, seconds, share, hostile)
            yield Demo(process, port, servers, topic)
        finally:
            process.kill()
            process.wait()


def _produce(servers: str, topic: str, key: bytes, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    producer.produce(topic, key=key, value=value, partition=0)
    assert producer.flush(30) == 0


def _ready(process: "subprocess.Popen[bytes]", log: Path) -> int:
    """The port of a worker that has its partitions."""
    begun = time.monotonic()
    while b'"event": "ready"' not in log.read_bytes():
        assert process.poll() is None and time.monotonic() - begun < WITHIN, log.read_text()
        time.sleep(0.05)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    return next(int(line["port"]) for line in told if line["event"].startswith("serving "))


def _play(servers: str, topic: str, seconds: float, share: float, hostile: Sequence[str]) -> None:
    ready = Player(servers, topic, seconds).ready
    ready = ready[: int(share * len(ready))]
    also = dict(zip(TWO, hostile, strict=False))
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "queue.buffering.max.messages": 1_000_000})
    begun, length = time.monotonic(), ready[-1][0]
    for at, partition, key, value in ready:
        if (wait := at * seconds / length - (time.monotonic() - begun)) > 0:
            time.sleep(wait)
        producer.produce(topic, key=key, value=value, partition=partition)
        if key.decode() in also:
            producer.produce(topic, key=also[key.decode()].encode(), value=value, partition=partition)
    for number, value in enumerate(BAD):
        producer.produce(topic, key=(hostile or TWO)[0].encode(), value=value, partition=number % PARTITIONS)
    producer.flush(30)
