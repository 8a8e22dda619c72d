"""A real Apache Kafka for development and tests: one KRaft node on loopback. It needs Java 17 or newer and Maven.

    with Broker() as broker:
        print(broker.url)

Everything a node writes is in its data folder.
"""

import atexit
import json
import os
import random
import shutil
import signal
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

__all__ = ["Broker", "free_port", "missing_tool", "prepare", "start_detached", "stop_detached"]

DEFAULT_PORT = 9092  # where a job file expects a broker by default
PORTS = range(61000, 65000)  # above the ports of outgoing connections on Linux
START_WITHIN = 60.0  # seconds
STOP_WITHIN = 10.0  # seconds, then it is killed; a node that ran for long needs up to 5

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
    "auto.create.topics.enable": "false",  # a topic created by accident has the wrong number of partitions
    # A node killed hard may register again only when its old session has ended: 9 s by default.
    "broker.session.timeout.ms": "4000",  # a killed node comes back within it; a starved one is not cut off sooner
    "broker.heartbeat.interval.ms": "500",
}


def free_port() -> int:
    """A free loopback port; $STREAMJOBS_PORTS (such as 61600-61699) narrows the choice."""
    low, _, high = os.environ.get("STREAMJOBS_PORTS", "").partition("-")
    ports = range(int(low), int(high) + 1) if low and high else PORTS
    for port in random.sample(ports, len(ports)):
        if is_free(port):
            return port
    raise SetupError(
        f"broker: ports {ports.start}-{ports.stop - 1} of 127.0.0.1 are all taken; stop brokers that were left running."
    )


def is_free(port: int) -> bool:
    """Whether no process listens on this port of 127.0.0.1."""
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
    port: None = any free one.  extra: more settings for its properties file.

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
        """Like `start`, after `prepare` or while holding its lock. options: of Java, instead of using the archive."""
        options = options or [f"-XX:SharedArchiveFile={jars.archive()}"]
        assert self.process is None, "started already"
        for attempt in range(3):
            self.port = port or free_port()
            if not is_free(self.port):
                raise SetupError(
                    f"broker: port {self.port} of 127.0.0.1 is taken; stop the process that uses it, or choose another port."
                )
            self._controller = self._controller or free_port()
            try:
                self._launch(options)
                self.wait()
                break
            except SetupError:
                self.kill()
                self._controller = None
                if attempt == 2 or port:  # otherwise another process may have taken the port meanwhile
                    raise
        atexit.register(self.kill)
        return self

    def _launch(self, options: Sequence[str]) -> None:
        folder = self.folder
        folder.mkdir(0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)  # whatever is sent to the node is in there
        (folder / "tmp").mkdir(exist_ok=True)
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
            command = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER, "--config", str(properties)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                output = (done.stderr or done.stdout).strip()[-300:]
                raise SetupError(f"broker: Kafka could not format {folder}: {output}")
        with (folder / "broker.log").open("ab") as log:
            # A session of its own: Ctrl-C at the terminal reaches the process that started the node, not the node.
            self.process = subprocess.Popen(
                [*java, "kafka.Kafka", str(properties)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, within: float = START_WITHIN) -> None:
        """Wait until the node answers with its metadata. within: seconds. Raises SetupError."""
        started = time.monotonic()
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
            if time.monotonic() - started > within:
                log = self.folder / "broker.log"
                raise SetupError(f"broker: no answer of Kafka at {self.bootstrap} within {within:.0f} s; check {log}.")

    def stop(self, within: float = STOP_WITHIN) -> None:
        """Stop the node with SIGTERM, after `within` seconds with SIGKILL; removes a temporary data folder."""
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
        """Kill the node with SIGKILL; the data folder stays, so that `restart` finds everything acknowledged."""
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
    """Fetch the jars and make the class data archive, once per Java version, by starting and stopping a node."""
    fetch_jars(progress)
    archive = jars.archive()
    if archive.exists():
        return
    with jars.locked():
        if archive.exists():
            return
        progress("Apache Kafka: making a class data archive (once, about 10 s); it halves every later start")
        part = archive.with_suffix(f".{os.getpid()}")
        node = Broker()
        node.start_prepared(None, [f"-XX:ArchiveClassesAtExit={part}"])
        node.stop(within=60)
        if not part.exists():
            raise SetupError(f"broker: Java made no class data archive at {part}; check that the disk has space.")
        part.rename(archive)


def start_detached(port: int | None = None, *, progress: Progress = quiet) -> str:
    """Start the broker of `broker start`, or find it running, and return its url. Its data survives every stop.

    port: None = 9092, or any free one where that is taken.  Raises SetupError as `Broker.start` does.
    """
    prepare(progress)
    with jars.locked():
        running = _running()
        if running is not None:
            if port not in (None, running["port"]):
                raise SetupError(
                    f"broker: already running at 127.0.0.1:{running['port']}; stop it ('streamjobs broker stop') "
                    f"before starting one at port {port}, or set STREAMJOBS_CACHE to another folder for a second one."
                )
            return f"kafka://127.0.0.1:{running['port']}"
        node = Broker(data=jars.home() / "node")
        node.start_prepared(port or (DEFAULT_PORT if is_free(DEFAULT_PORT) else None))
        assert node.process is not None
        _pid_file().write_text(json.dumps({"pid": node.process.pid, "port": node.port}))
        atexit.unregister(node.kill)
        return node.url


def stop_detached() -> str | None:
    """Stop the development broker and return the url it had; None where none was running."""
    with jars.locked():
        running = _running()
        if running is None:
            return None
        os.kill(running["pid"], signal.SIGTERM)
        started = time.monotonic()
        while _running() is not None:
            if time.monotonic() - started > STOP_WITHIN:
                os.kill(running["pid"], signal.SIGKILL)
            time.sleep(0.05)
        _pid_file().unlink()
        return f"kafka://127.0.0.1:{running['port']}"


def _pid_file() -> Path:
    return jars.home() / "node.json"


def _running() -> dict[str, int] | None:
    """Process id and port of the development broker, if that process still is one."""
    try:
        written: dict[str, int] = json.loads(_pid_file().read_text())
        command = Path(f"/proc/{written['pid']}/cmdline").read_bytes()
    except FileNotFoundError:
        return None
    return written if str(jars.home() / "node" / "node.properties").encode() in command else None
