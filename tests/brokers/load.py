"""A steady stream of samples into a job's input, in a thread of its own."""

import itertools
import json
import random
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent, new_producer, send

START = 1_700_000_000.0  # event time of the first sample, seconds since 1970
STEP = 0.02  # seconds of event time between a key's samples


def samples(count: int | None, *, keys: int = 200, seed: int = 1, dim: int = 4, start: float = START) -> Iterator[Sent]:
    """`count` single samples (None: without end) of random keys: noisy walks with labels; key k is in partition k % 4."""
    rnd = random.Random(seed)
    steps = [0] * keys
    places = [[rnd.gauss(0, 1) for _ in range(dim)] for _ in range(keys)]
    for _ in itertools.count() if count is None else range(count):
        key = rnd.randrange(keys)
        place, at = places[key], start + steps[key] * STEP
        place[:] = [0.98 * value + rnd.gauss(0, 0.2) for value in place]
        body = {"x": [round(value, 6) for value in place], "ts": at}
        if steps[key] % 3 == 0:
            body["label"] = "up" if place[0] > 0 else "down"
        steps[key] += 1
        yield Sent(b"key-%d" % key, json.dumps(body).encode(), key % PARTITIONS, round(at * 1000))


def sensors(keys: int, steps: int, *, stuck: bool = False) -> list[Sent]:
    """A sample of each key every second. In steps 400 to 699 a third of the keys is silent; stuck: another repeats `ax`."""
    rng, sent = np.random.default_rng(7), []
    for step in range(steps):
        for number in range(keys):
            x = rng.normal(size=3)
            if 400 <= step < 700 and number % 3 == 1:
                continue
            if stuck and 400 <= step < 700 and number % 3 == 0:
                x[0] = 1.5
            body = {"ax": x[0], "ay": x[1], "az": x[2], "ts": START + step}
            key = f"s{number}".encode()
            sent.append(Sent(key, json.dumps(body).encode(), zlib.crc32(key) % PARTITIONS, int((START + step) * 1000)))
    return sent


SOURCE = {"dim": 4, "time": "ts", "label": "label"}  # of the job file, for such samples


class Load(threading.Thread):
    """Sends `samples` at `rate` a second until `finish`; `sent` holds (partition, offset) of what was acknowledged."""

    def __init__(self, job: KafkaJob, rate: float, **kind: Any) -> None:
        super().__init__(daemon=True)
        self.job, self.rate, self.kind = job, rate, kind
        self.sent: set[tuple[int, int]] = set()
        self.refused: list[str] = []
        self._enough = threading.Event()
        self.start()

    def run(self) -> None:
        producer = new_producer(self.job.bootstrap, **{"linger.ms": 2})
        start = time.monotonic()
        for number, record in enumerate(samples(None, **self.kind)):
            send(producer, self.job.input, record, self._acknowledged)
            ahead = start + number / self.rate - time.monotonic()
            if ahead > 0.01:
                time.sleep(ahead)
            if self._enough.is_set():
                break
        producer.flush(60)

    def _acknowledged(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refused.append(str(error))
        else:
            self.sent.add((message.partition(), message.offset()))

    def finish(self) -> int:
        """No more; gives how many records were sent and acknowledged."""
        self._enough.set()
        self.join(90)
        assert not self.is_alive(), "the load could not deliver its records within 90 s"
        assert not self.refused, f"{len(self.refused)} records were refused, such as {self.refused[0]}"
        return len(self.sent)

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self.join(90)
