"""A steady stream of samples into a job's input, in a thread of its own."""

import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from tests.kafka.bed import PARTITIONS, Bed, Sent, new_producer, send

START = 1_700_000_000.0  # event time of the first sample, seconds since 1970
STEP = 0.02  # seconds of event time between a key's samples


def samples(count: int, *, keys: int = 200, seed: int = 1, dim: int = 4) -> Iterator[Sent]:
    """`count` single samples of random keys; key k is in partition k % 4, its samples are a noisy walk with labels."""
    rnd = random.Random(seed)
    steps = [0] * keys
    places = [[rnd.gauss(0, 1) for _ in range(dim)] for _ in range(keys)]
    for _ in range(count):
        key = rnd.randrange(keys)
        place, at = places[key], START + steps[key] * STEP
        place[:] = [0.98 * value + rnd.gauss(0, 0.2) for value in place]
        body = {"x": [round(value, 6) for value in place], "ts": at}
        if steps[key] % 3 == 0:
            body["label"] = "up" if place[0] > 0 else "down"
        steps[key] += 1
        yield Sent(b"key-%d" % key, json.dumps(body).encode(), key % PARTITIONS, round(at * 1000))


SOURCE = {"time": "ts", "label": "label"}  # of the job file, for such samples


class Load(threading.Thread):
    """Sends `samples` at a rate; `sent` holds (partition, offset) of what was acknowledged."""

    def __init__(self, bed: Bed, count: int, rate: float, **kind: Any) -> None:
        super().__init__(daemon=True)
        self.bed, self.count, self.rate, self.kind = bed, count, rate, kind
        self.sent: set[tuple[int, int]] = set()
        self.refused: list[str] = []
        self.begun = 0

    def run(self) -> None:
        producer = new_producer(self.bed.bootstrap, **{"linger.ms": 2})
        start = time.monotonic()
        for number, record in enumerate(samples(self.count, **self.kind)):
            send(producer, self.bed.input, record, self._acknowledged)
            self.begun = number + 1
            if number % 20 == 0:
                ahead = start + number / self.rate - time.monotonic()
                if ahead > 0:
                    time.sleep(ahead)
        producer.flush(60)

    def _acknowledged(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refused.append(str(error))
        else:
            self.sent.add((message.partition(), message.offset()))

    def finish(self, within: float = 120.0) -> int:
        """Wait for the last acknowledgement; gives how many records were sent."""
        self.join(within)
        assert not self.is_alive(), f"the load still runs after {within:.0f} s"
        assert not self.refused and len(self.sent) == self.count, f"{len(self.refused)} refused: {self.refused[:1]}"
        return self.count
