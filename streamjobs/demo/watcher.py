"""Reads the worker's output topics while they grow."""

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from streamjobs.demo.board import Board
from streamjobs.demo.player import PARTITIONS, Player


class Watcher(threading.Thread):
    """A thread that counts every output on the board; `last` is when the newest one arrived (monotonic seconds)."""

    def __init__(self, servers: str, topics: Mapping[str, str], board: Board, player: Player) -> None:
        super().__init__(daemon=True, name="watcher")
        self.servers, self.board, self.player = servers, board, player
        self.sink_of = {topic: sink for sink, topic in topics.items()}
        self.lock = threading.Lock()  # held while the board changes
        self.last = time.monotonic()
        self.stopping = threading.Event()
        self.failed: Exception | None = None

    def run(self) -> None:
        try:
            self._watch()
        except Exception as error:  # noqa: BLE001 - the drawing thread raises it
            self.failed = error

    def _watch(self) -> None:
        consumer: Any = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "streamjobs-demo-screen",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, n, 0) for topic in self.sink_of for n in range(PARTITIONS)])
        while not self.stopping.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue
            now, sink = time.time(), self.sink_of[message.topic()]
            record = json.loads(message.value()) if sink == "predictions" else None
            delay = self._delay(now, dict(message.headers() or ())["streamjobs-id"]) if record else None
            with self.lock:
                self.board.take(sink, record, delay)
            self.last = time.monotonic()
        consumer.close()

    def _delay(self, now: float, identity: bytes) -> float | None:
        """Seconds since the record that completed the window was sent; its place is in the output's id."""
        partition, offset = (int(part) for part in identity.decode().split("-")[1:3])
        sent = self.player.sent_at[partition]
        return now - sent[offset] if offset < len(sent) else None
