"""A real Apache Kafka (one KRaft node on loopback) for development and tests; needs Java 17 or newer and Maven.

    with Broker() as broker:
        print(broker.url)

Everything a node writes is in its data folder.
"""

import atexit
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker import jars
from streamjobs.kafka.devbroker.jars import Progress, fetch_jars, missing_tool, quiet

__all__ = ["Broker", "free_port", "is_free", "missing_tool", "prepare"]

PORTS = range(61000, 65000)  # above the ports that outgoing connections take on Linux
START_WITHIN = 60.0  # seconds
STOP_WITHIN = 10.0  # seconds, then it is killed; a node used for long needs up to 5

_CLUSTER = "c3RyZWFtam9icy1kZXYtMQ"  # any 16 bytes in base64
_FIXED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
    "num.replica.fetchers": "1",
    # Internal topics of one node: few partitions, no replicas.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.io.buffer.size": "262144",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.ms": "-1",  # records carry event times: those of a recording from last year would be deleted at once
    "auto.create.topics.enable": "false",  # a topic made by accident has the wrong number of partitions
    # A node killed hard may register again only when its old session has ended: 9 s by default.
    "broker.session.timeout.ms": "4000",  # a killed node comes back within it; a starved one is not cut off sooner
    "broker.heartbeat.interval.ms": "500",
}


def free_port() -> int:
    """A loopback port nobody listens on; $STREAMJOBS_PORTS (such as 61600-61699) narrows the choice."""
    low, _, high = os.environ.get("STREAMJOBS_PORTS", "").partition("-")
    ports = range(int(low), int(high) + 1) if low and high else PORTS
    for port in random.sample(ports, len(ports)):
        if is_free(port):
            return port
    raise SetupError(f"broker: ports {ports.start}-{ports.stop - 1} of 127.0.0.1 are all taken; stop what was left running.")


def is_free(port: int) -> bool:
    """Whether nobody listens on this port of 127.0.0.1."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections do not count, as for Kafka itself
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Broker:
    """One node. `start` formats its data folder where needed and returns once the node answers.

    data: folder for everything it writes; None = a temporary one, which `stop` removes.
    port: None = any free one.  extra: further lines of its properties file.

    >>> Broker(port=61999).url
    'kafka://127.0.0.1:61999'
    """

    def __init__(self, data: str | Path | None = None, port: int | None = None, extra: dict[str, str] | None = None) -> None:
        self.port = port
        self.extra = extra or {}
        self.temporary = data is None
        self.data = Path(data).absolute() if data is not None else None
        self.process: subprocess.Popen[bytes] | None = None
        self._controller: int | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"kafka://{self.bootstrap}"

    @property
    def folder(self) -> Path:
        if self.data is None:
            self.data = Path(tempfile.mkdtemp(prefix="streamjobs-kafka-"))
        return self.data

    def start(self, port: int | None = None, *, progress: Progress = quiet) -> "Broker":
        """Raises SetupError where Java or Maven is missing, the port is taken, or the node does not come up."""
        prepare(progress)
        return self.start_prepared(port or self.port)

    def start_prepared(self, port: int | None, options: Sequence[str] | None = None) -> "Broker":
        """`start` without `prepare`, for who has called it or holds its lock; options: of Java, instead of the archive."""
        options = options or [f"-XX:SharedArchiveFile={jars.archive()}"]
        assert self.process is None, "started already"
        for attempt in range(3):
            self.port = port or free_port()
            if not is_free(self.port):
                raise SetupError(
                    f"broker: port {self.port} of 127.0.0.1 is taken; stop what listens there or choose another."
                )
            self._controller = self._controller or free_port()
            try:
                self._launch(options)
                self.wait()
                break
            except SetupError:
                self.kill()
                self._controller = None
                if attempt == 2 or port:  # otherwise somebody may have taken the port in between
                    raise
        atexit.register(self.kill)
        return self

    def _launch(self, options: Sequence[str]) -> None:
        folder = self.folder
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        properties = folder / "node.properties"
        lines = {
            **_FIXED,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(folder / "log"),
            **self.extra,
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        java = jars.java_command(folder / "tmp", *options)
        if not (folder / "log" / "meta.properties").exists():
            format_it = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER, "--config", str(properties)]
            done = subprocess.run(format_it, capture_output=True, text=True, check=False)
            if done.returncode:
                said = (done.stderr or done.stdout).strip()[-300:]
                raise SetupError(f"broker: Kafka could not format {folder}: {said}")
        with (folder / "broker.log").open("ab") as log:
            # A session of its own: an interrupt typed at the terminal reaches whoever started the node, not the node.
            self.process = subprocess.Popen(
                [*java, "kafka.Kafka", str(properties)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, within: float = START_WITHIN) -> None:
        """Until the node answers with its metadata; `within` in seconds."""
        begin = time.monotonic()
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 100})
        while True:
            if self.process is not None and self.process.poll() is not None:
                log = self.folder / "broker.log"
                last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it wrote nothing"]
                raise SetupError(
                    f"broker: Kafka ended with code {self.process.returncode} while starting: {last[0]} ({log})"
                )
            try:
                if client.list_topics(timeout=0.5).brokers:
                    return
            except KafkaException:
                time.sleep(0.05)
            if time.monotonic() - begin > within:
                log = self.folder / "broker.log"
                raise SetupError(f"broker: Kafka gave no answer at {self.bootstrap} within {within:.0f} s; see {log}.")

    def stop(self, within: float = STOP_WITHIN) -> None:
        """SIGTERM, and SIGKILL where that takes longer than `within` seconds; a temporary data folder is removed."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(within)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None
        atexit.unregister(self.kill)
        if self.temporary and self.data is not None:
            shutil.rmtree(self.data, ignore_errors=True)
            self.data = None

    def kill(self) -> None:
        """SIGKILL; the data folder stays, so that `restart` finds what was acknowledged."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        """Start again with the same port and data after `kill`; takes about 4 s."""
        self.start(self.port)

    def __enter__(self) -> "Broker":
        return self if self.process is not None else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def prepare(progress: Progress = quiet) -> None:
    """The jars, and the class data archive: made once per Java version by starting and stopping a node."""
    fetch_jars(progress)
    kept = jars.archive()
    if kept.exists():
        return
    with jars.locked():
        if kept.exists():
            return
        progress("Apache Kafka: a class data archive is made (once, about 10 s); it halves every later start")
        part = kept.with_suffix(f".{os.getpid()}")
        node = Broker()
        node.start_prepared(None, [f"-XX:ArchiveClassesAtExit={part}"])
        node.stop(within=60)
        if not part.exists():
            raise SetupError(f"broker: Java made no class data archive at {part}; is that disk full?")
        part.rename(kept)
