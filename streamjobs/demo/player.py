"""Plays the recordings into the input topic, faster than real time."""

import json
import time

from streamjobs.core.messages import Stored
from streamjobs.demo.background import PARTITIONS, Background, producer
from streamjobs.demo.recordings import NEW, PAUSE, samples


def key_of(person: int) -> str:
    return f"person-{person:02d}"


class Player(Background):
    """Sends every sample. `sent_at[partition][offset]` is when it was sent."""

    def __init__(self, servers: str, topic: str, seconds: float) -> None:
        super().__init__("player")
        self.servers, self.topic, self.seconds = servers, topic, seconds
        self.ready = list(_messages(time.time()))
        self.length = self.ready[-1][0]  # seconds of event time
        self.sent_at: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self.sent = 0

    @property
    def speed(self) -> float:
        return self.length / self.seconds

    @property
    def records(self) -> list[Stored]:
        now = round(time.time() * 1000)
        return [Stored(self.topic, part, n, now, key, value) for n, (_, part, key, value) in enumerate(self.ready)]

    def work(self) -> None:
        to, started = producer(self.servers, linger=2), time.monotonic()
        for at, partition, key, value in self.ready:
            if not self.wait_until(started + at / self.speed, to):
                return
            now = time.time()
            to.produce(self.topic, key=key, value=value, partition=partition, timestamp=round(now * 1000))
            self.sent_at[partition].append(now)
            self.sent += 1
        to.flush(30)


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
