"""Reads the worker's output topics while they grow."""

import json
import threading
import time
from collections.abc import Mapping

from streamjobs.demo.background import Background, consumer
from streamjobs.demo.board import Board
from streamjobs.demo.player import Player


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
