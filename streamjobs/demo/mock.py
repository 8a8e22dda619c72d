"""librdkafka's mock cluster in a process of its own: a Kafka-compatible broker for the demo and tests, without Java.

`python -m streamjobs.demo.mock` prints its address and runs until its standard input ends. It keeps a few MB a partition
in memory, and proves nothing about durability.
"""

import subprocess
import sys
import time
from collections.abc import Iterable
from types import TracebackType

from confluent_kafka.admin import AdminClient

from streamjobs.demo.background import PARTITIONS
from streamjobs.errors import SetupError

START_WITHIN = 10.0  # seconds


class MockBroker:
    """`with MockBroker() as broker: broker.url`."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> "MockBroker":
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C ends the demo, which ends the broker last
        )
        assert self.process.stdout is not None
        address = self.process.stdout.readline().strip()
        if not address:
            raise SetupError("demo: the mock broker did not start; install confluent-kafka from a wheel, which contains it.")
        self.url = f"kafka://{address}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.communicate()

    def create(self, topics: Iterable[str]) -> None:
        """Create topics by asking for them; the mock has no request to create one."""
        admin = AdminClient({"bootstrap.servers": self.url.removeprefix("kafka://"), "log_level": 0})
        for topic in topics:
            started = time.monotonic()
            while len(admin.list_topics(topic, timeout=START_WITHIN).topics[topic].partitions) != PARTITIONS:
                if time.monotonic() - started > START_WITHIN:
                    raise SetupError(f"demo: the mock broker did not create topic {topic} within {START_WITHIN:.0f} s.")


def serve() -> None:
    """Print the address, then wait for the end of standard input."""
    cluster = AdminClient({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    (node,) = cluster.list_topics(timeout=START_WITHIN).brokers.values()
    print(f"{node.host}:{node.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve()
