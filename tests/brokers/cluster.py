"""Three real Kafka nodes that are brokers and controllers at once: replication factor 3, two in-sync replicas to write.

Every node has a second listener whose advertised address is a proxy's: clients that bootstrap there talk to all nodes
through proxies, and what they meet on the network can be chosen (`tests.brokers.proxy`). A third one, behind proxies of its
own, takes only users with a password, over TLS.
"""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker.broker import Broker, free_port, prepare
from tests.brokers.certificates import Authority, missing_openssl
from tests.brokers.kafka_job import until
from tests.brokers.proxy import Proxy
from tests.brokers.secured import by_password, certified, set_password

NODES = (1, 2, 3)
BACK_WITHIN = 90.0  # seconds for a node to be in sync again, on a machine with much else to do

_SHARED = {
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,SECURED:SASL_SSL",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.request.timeout.ms": "2000",
    "replica.lag.time.max.ms": "6000",
    "broker.session.timeout.ms": "6000",  # nodes that have to wait for a processor are not cut off at once
    "log.retention.check.interval.ms": "2000",
}


class Cluster:
    """Nodes 1 to 3, each with a data folder below `folder`; started by `with`, all gone afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca: Authority
        self.nodes: dict[int, Broker] = {}
        self.proxies: dict[int, Proxy] = {}
        self.bootstrap = ""  # of all nodes, directly
        self.proxied = ""  # of all nodes, through the proxies
        self.gates: dict[int, Proxy] = {}
        self.secured = ""  # of all nodes, through the gates, for users
        self._admin: Any = None

    def start(self) -> "Cluster":
        """Raises SetupError where Java, Maven or openssl is missing, or a node does not come up."""
        prepare()
        if (problem := missing_openssl()) is not None:
            raise SetupError(problem)
        self.ca = Authority(self.folder)
        self.ca.issued("node")
        plain, controllers, behind, fronts, inner, outer = _ports(6)
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        for node in NODES:
            own = {
                "node.id": str(node),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{plain[node]},CONTROLLER://127.0.0.1:{controllers[node]},"
                f"PROXIED://127.0.0.1:{behind[node]},SECURED://127.0.0.1:{inner[node]}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain[node]},PROXIED://127.0.0.1:{fronts[node]},"
                f"SECURED://127.0.0.1:{outer[node]}",
                **by_password("secured"),
                **certified("secured", self.folder / "node.pem", self.ca),
            }
            self.nodes[node] = Broker(data=self.folder / f"node{node}", port=plain[node], extra={**_SHARED, **own})
            self.proxies[node] = Proxy(fronts[node], behind[node]).start()
            self.gates[node] = Proxy(outer[node], inner[node]).start()
        self.bootstrap, self.proxied, self.secured = (
            ",".join(f"127.0.0.1:{port}" for port in ports.values()) for ports in (plain, fronts, outer)
        )
        self.each(NODES, self.restart)
        until(lambda: len(self.alive()) == len(NODES), "all nodes in the metadata", BACK_WITHIN)
        return self

    def each(self, nodes: Iterable[int], do: Callable[[int], Any]) -> None:
        """`do` to several nodes at the same time."""
        with ThreadPoolExecutor(len(NODES)) as pool:
            list(pool.map(do, nodes))

    def _metadata(self) -> Any:
        if self._admin is None:  # one for all its time: librdkafka crashes when clients end while nodes vanish
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return self._admin.list_topics(timeout=5)
        except KafkaException:
            return None

    def alive(self) -> set[int]:
        found = self._metadata()
        return set(found.brokers) if found is not None else set()

    def user(self, name: str, password: str) -> None:
        """Make a user of `secured`, or give it another password."""
        self._metadata()
        set_password(self._admin, name, password)

    def controller(self) -> tuple[int, int]:
        """(epoch of the quorum, node that leads it), from the state that every node keeps in its metadata log."""
        found = []
        for broker in self.nodes.values():
            try:
                state = json.loads((broker.folder / "log" / "__cluster_metadata-0" / "quorum-state").read_text())
            except (OSError, ValueError):  # being written
                continue
            found.append((int(state["leaderEpoch"]), int(state["leaderId"])))
        return max(found)

    def leader(self, topic: str, partition: int) -> int:
        found: list[int] = []

        def known() -> bool:
            metadata = self._metadata()
            if metadata is None or topic not in metadata.topics:
                return False
            found[:] = [metadata.topics[topic].partitions[partition].leader]
            return found[0] in NODES

        until(known, f"a leader of {topic}[{partition}]", BACK_WITHIN)
        return found[0]

    def kill(self, node: int) -> int:
        """SIGKILL; gives the process id that is dead."""
        process = self.nodes[node].process
        assert process is not None and process.poll() is None, f"node {node} was not running"
        self.nodes[node].kill()
        assert process.returncode == -9
        return process.pid

    def stop(self, node: int) -> None:
        """A controlled shutdown."""
        self.nodes[node].stop(within=60)

    def restart(self, node: int) -> None:
        """Start a node, or start it again; a machine with much else to do may need more than one attempt."""
        for attempt in range(3):
            try:
                self.nodes[node].restart()
                return
            except SetupError:
                if attempt == 2:
                    raise

    def in_sync(self) -> None:
        """Wait until every replica of every partition is in sync again."""

        def everywhere() -> bool:
            found = self._metadata()
            return (
                found is not None
                and set(found.brokers) == set(NODES)
                and all(
                    len(partition.isrs) == len(partition.replicas) and partition.leader in NODES
                    for topic in found.topics.values()
                    for partition in topic.partitions.values()
                )
            )

        until(everywhere, "every replica in sync", BACK_WITHIN, every=0.2)

    def whole(self) -> None:
        """Whatever was done to it: every node runs and every replica is in sync."""
        self.each([node for node in NODES if self.nodes[node].process is None], self.restart)
        self.in_sync()

    def close(self) -> None:
        for proxy in (*self.proxies.values(), *self.gates.values()):
            proxy.stop()
        for broker in self.nodes.values():
            broker.kill()

    def __enter__(self) -> "Cluster":
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _ports(kinds: int) -> list[dict[int, int]]:
    """So many times one for each node, all different."""
    found: set[int] = set()
    while len(found) < kinds * len(NODES):
        found.add(free_port())
    ports = iter(found)
    return [{node: next(ports) for node in NODES} for _ in range(kinds)]
