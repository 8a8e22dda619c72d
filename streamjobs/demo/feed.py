"""The demo's recordings again and again: in real time to a broker of yours, or from many people at once."""

import itertools
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from numpy.typing import NDArray

from streamjobs.demo.background import PARTITIONS, TICK, Background, consumer, producer
from streamjobs.demo.job import demo_job
from streamjobs.demo.player import key_of
from streamjobs.demo.recordings import FIELDS, NEW, PAUSE, RATE, Sample, samples, sets
from streamjobs.errors import SetupError
from streamjobs.kafka import client, topics
from streamjobs.settings.types import many

FLUSH_WITHIN = 30.0  # seconds
FRAME = round(RATE)  # samples
NEWEST = 20_000  # windows with delays that are kept
GAIN, OFFSETS = 0.1, np.array([0.05, 0.05, 0.05, 0.1, 0.1, 0.1])


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


class Frame(NamedTuple):
    """A second of one recording, before a sensor is off."""

    X: NDArray[np.float64]  # (FRAME, 6)
    exercise: str
    arm: int


class Sender(Background):
    """Sends a frame a second of every person, in real time, for `seconds`."""

    def __init__(self, servers: str, topic: str, people: int, seconds: float) -> None:
        super().__init__("sender")
        self.servers, self.topic, self.people, self.seconds = servers, topic, people, seconds
        self.sent = 0  # frames
        self._frames = [list(_frames(person)) for person in NEW]
        random = np.random.default_rng(1)
        self._gains = random.uniform(1 - GAIN, 1 + GAIN, (people, len(FIELDS)))
        self._offsets = random.uniform(-1, 1, (people, len(FIELDS))) * OFFSETS
        self._starts = random.integers(0, 1 << 20, people)  # where in the recordings each one begins
        self._behind = np.arange(FRAME) / RATE - 1.0  # seconds of samples relative to the time a frame is sent

    @property
    def samples(self) -> int:
        return FRAME * self.sent

    def work(self) -> None:
        to = producer(self.servers, linger=20)
        started, begun = time.monotonic(), time.time()
        for turn in range(int(self.seconds)):
            for person in range(self.people):
                due = turn + person / self.people  # spread over the second
                if not self.wait_until(started + due, to):
                    return
                key, value = f"person-{person:04d}".encode(), self._value(person, turn, begun + due)
                to.produce(self.topic, key=key, value=value, partition=person % PARTITIONS)
                self.sent += 1
        to.flush(30)

    def _value(self, person: int, turn: int, now: float) -> bytes:
        frames = self._frames[person % len(NEW)]
        frame = frames[(int(self._starts[person]) + turn) % len(frames)]
        X = (frame.X * self._gains[person] + self._offsets[person]).round(3)
        columns: dict[str, Any] = dict(zip(FIELDS, X.T.tolist(), strict=True))
        times = (now + self._behind).round(3).tolist()
        return json.dumps(columns | {"arm": frame.arm, "exercise": frame.exercise, "ts": times}).encode()


class Counter(Background):
    """Reads the predictions and counts them; `delays` are seconds from a window's end to its reading."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__("counter")
        self.servers, self.topic = servers, topic
        self.windows = self.judged = self.right = self.alarms = 0
        self.delays: deque[float] = deque(maxlen=NEWEST)
        self.last = time.monotonic()

    def work(self) -> None:
        predictions = consumer(self.servers, [self.topic])
        while not self.stopping.is_set():
            for message in predictions.consume(1000, 0.1):
                if message.error():
                    continue
                record = json.loads(message.value())
                self.windows += 1
                self.delays.append(time.time() - record["ts"])
                self.alarms += record["drift"]
                if record["true_class"] is not None:
                    self.judged += 1
                    self.right += record["true_class"] == record["predicted_class"]
                self.last = time.monotonic()
        predictions.close()


def _frames(person: int) -> Iterator[Frame]:
    for one in sets()[person]:
        for begin in range(0, len(one.X) - FRAME + 1, FRAME):
            yield Frame(one.X[begin : begin + FRAME], one.exercise, one.arm)
