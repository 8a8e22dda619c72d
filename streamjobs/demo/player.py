"""Plays the recordings into the input topic, faster than real time, and reads the output topics while they grow."""

import json
import threading
import time
from collections.abc import Mapping

from streamjobs.core.messages import Stored
from streamjobs.demo.background import PARTITIONS, Background, consumer, producer
from streamjobs.demo.board import Board
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
    played = samples()
    begin = round(newest) - played[-1].at - PAUSE
    values = (json.dumps({**one.body, "ts": round(begin + one.at, 3)}).encode() for one in played)
    places = ((NEW.index(one.person) % PARTITIONS, key_of(one.person).encode()) for one in played)
    return [(one.at, *place, value) for one, place, value in zip(played, places, values, strict=True)]


class Watcher(Background):
    """Counts every output on the board; `last` is when the newest one arrived (monotonic seconds)."""

    def __init__(self, servers: str, topics: Mapping[str, str], board: Board, player: Player) -> None:
        super().__init__("watcher")
        self.servers, self.board, self.player = servers, board, player
        self.sink_of = {topic: sink for sink, topic in topics.items()}
        self.lock = threading.Lock()  # held while the board changes
        self.last = time.monotonic()

    def work(self) -> None:
        outputs = consumer(self.servers, self.sink_of)
        while not self.stopping.is_set():
            message = outputs.poll(0.1)
            if message is None or message.error():
                continue
            now, sink = time.time(), self.sink_of[message.topic()]
            record = json.loads(message.value()) if sink == "predictions" else None
            delay = self._delay(now, dict(message.headers() or ())["streamjobs-id"]) if record else None
            with self.lock:
                self.board.take(sink, record, delay)
            self.last = time.monotonic()
        outputs.close()

    def _delay(self, now: float, identity: bytes) -> float | None:
        """Seconds since the record that completed the window was sent; its place is in the output's id."""
        partition, offset = (int(part) for part in identity.decode().split("-")[1:3])
        sent = self.player.sent_at[partition]
        return now - sent[offset] if offset < len(sent) else None
