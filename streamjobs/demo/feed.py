"""The demo's recordings again and again, in real time, to a broker of yours."""

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from streamjobs.demo.background import PARTITIONS, TICK
from streamjobs.demo.job import demo_job
from streamjobs.demo.player import key_of
from streamjobs.demo.recordings import NEW, PAUSE, Sample, samples
from streamjobs.errors import SetupError
from streamjobs.kafka import client, topics
from streamjobs.settings.types import many

FLUSH_WITHIN = 30.0  # seconds


def feed(url: str, seconds: float | None) -> int:
    """Send until `seconds` have passed (None: until SIGTERM or Ctrl-C); gives the number of records the broker has.

    Creates the topics of the demo's job where they are missing. Credentials come from the environment, as a worker's do.
    Raises SetupError where the broker does not answer or refuses a record.
    """
    job = demo_job({**os.environ, "STREAMJOBS_BROKER__URL": url})
    broker, topic = job.settings.broker, job.settings.source.topic
    topics.create(job.settings, partitions=None, job_sinks=job.sinks, state_bytes=job.state_bytes)
    partitions = topics.count_partitions(broker, topic) or PARTITIONS
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    producer: Any = Producer({**client.for_confluent(broker), "linger.ms": 5, "enable.idempotence": True})
    refused: list[str] = []
    acknowledged = 0

    def count_sent(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            refused.append(str(error))

    played = samples()
    begun, started = time.time(), time.monotonic()
    for at, sample in endless(played):
        while (wait := at - (time.monotonic() - started)) > 0 and not stopping.is_set():
            producer.poll(0)
            stopping.wait(max(wait, TICK))
            if seconds is not None and time.monotonic() - started >= seconds:
                stopping.set()
        if stopping.is_set() or refused:
            break
        value = json.dumps({**sample.body, "ts": round(begun + at, 3)})
        part = NEW.index(sample.person) % partitions
        producer.produce(topic, key=key_of(sample.person), value=value, partition=part, on_delivery=count_sent)
    left = producer.flush(FLUSH_WITHIN)
    if refused or left:
        reason = refused[0] if refused else f"no answer within {FLUSH_WITHIN:.0f} s"
        raise SetupError(
            f"demo: the broker at {url} did not take {many(len(refused) or left, 'record')} for {topic} ({reason})."
        )
    return acknowledged


def endless(played: Sequence[Sample]) -> Iterator[tuple[float, Sample]]:
    """All samples again and again, each with its seconds since the start."""
    length = played[-1].at + PAUSE
    for turn in itertools.count():
        for sample in played:
            yield turn * length + sample.at, sample
