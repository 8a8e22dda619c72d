"""Plays the recordings into the input topic, faster than real time."""

import json
import threading
import time
from typing import Any

from confluent_kafka import Producer

from streamjobs.core.messages import Stored
from streamjobs.demo.recordings import NEW, PAUSE, samples

PARTITIONS = 4
TICK = 0.02  # seconds between bursts


def key_of(person: int) -> str:
    return f"person-{person:02d}"


class Player(threading.Thread):
    """A thread that sends every sample. `sent_at[partition][offset]` is when it was sent; `failed` holds an error."""

    def __init__(self, servers: str, topic: str, seconds: float) -> None:
        super().__init__(daemon=True, name="player")
        self.servers, self.topic, self.seconds = servers, topic, seconds
        self.ready = list(_messages(time.time()))
        self.length = self.ready[-1][0]  # seconds of event time
        self.sent_at: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self.sent = 0
        self.failed: Exception | None = None
        self.stopping = threading.Event()

    @property
    def speed(self) -> float:
        """How many times faster than real time."""
        return self.length / self.seconds

    @property
    def records(self) -> list[Stored]:
        """All samples as records."""
        now = round(time.time() * 1000)
        return [Stored(self.topic, part, n, now, key, value) for n, (_, part, key, value) in enumerate(self.ready)]

    def run(self) -> None:
        try:
            self._play()
        except Exception as error:  # noqa: BLE001 - the drawing thread raises it
            self.failed = error

    def _play(self) -> None:
        producer: Any = Producer(
            {
                "bootstrap.servers": self.servers,
                "linger.ms": 2,
                "enable.idempotence": True,  # in order: the n-th sample sent to a partition has offset n
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )
        started = time.monotonic()
        for at, partition, key, value in self.ready:
            while (wait := at / self.speed - (time.monotonic() - started)) > 0:
                if self.stopping.is_set():
                    return
                producer.poll(0)
                time.sleep(max(wait, TICK))
            now = time.time()
            producer.produce(self.topic, key=key, value=value, partition=partition, timestamp=round(now * 1000))
            self.sent_at[partition].append(now)
            self.sent += 1
        producer.flush(30)


def _messages(newest: float) -> list[tuple[float, int, bytes, bytes]]:
    """(seconds since the first, partition, key, value) of every sample; event times end at `newest`."""
    played = list(samples())
    begin = round(newest) - played[-1].at - PAUSE
    messages = []
    for sample in played:
        body = {**sample.body, "ts": round(begin + sample.at, 3)}
        messages.append(
            (sample.at, NEW.index(sample.person) % PARTITIONS, key_of(sample.person).encode(), json.dumps(body).encode())
        )
    return messages
