"""Threads that send to the demo's broker and read from it, with their clients and their pace."""

import threading
import time
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 4  # of every topic: the default of the mock broker too
TICK = 0.02  # seconds between bursts


class Background(threading.Thread):
    """A thread that ends when `stopping` is set. `failed` has an error: the thread that draws raises it."""

    def __init__(self, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.stopping = threading.Event()
        self.failed: Exception | None = None

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - see above
            self.failed = error

    @abstractmethod
    def work(self) -> None: ...

    def stop(self) -> None:
        self.stopping.set()
        if self.is_alive():
            self.join(5)

    def wait_until(self, due: float, to: Any) -> bool:
        """Wait for a monotonic time while the producer `to` works; False: stopped. TICK at least, so that bursts go out."""
        while (wait := due - time.monotonic()) > 0:
            if self.stopping.is_set():
                return False
            to.poll(0)
            time.sleep(max(wait, TICK))
        return True


def producer(servers: str, linger: int) -> Any:
    """linger: milliseconds that a record waits for others."""
    return Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": linger,
            "enable.idempotence": True,  # in order: the n-th record sent to a partition has offset n
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )


def consumer(servers: str, topics: Iterable[str]) -> Any:
    """Of all partitions of the topics, from their beginnings; nothing is committed."""
    made: Any = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "streamjobs-demo-screen",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    made.assign([TopicPartition(topic, n, 0) for topic in topics for n in range(PARTITIONS)])
    return made
