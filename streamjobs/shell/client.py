"""How every client of this job reaches the broker; one place for addresses now and credentials later."""

from typing import Any

from streamjobs.config import BrokerSection

DEFAULT_PORT = 9092


def servers(broker: BrokerSection) -> list[str]:
    """ "kafka://a,b:9093" -> ["a:9092", "b:9093"]."""
    hosts = broker.url.partition("://")[2] if "://" in broker.url else broker.url
    found = [host.strip().rpartition("://")[2] for host in hosts.replace(";", ",").split(",") if host.strip()]
    return [host if ":" in host else f"{host}:{DEFAULT_PORT}" for host in found]


def for_aiokafka(broker: BrokerSection) -> dict[str, Any]:
    return {"bootstrap_servers": servers(broker)}


def for_faust(broker: BrokerSection) -> list[str]:
    return [f"kafka://{server}" for server in servers(broker)]


def for_confluent(broker: BrokerSection) -> dict[str, Any]:
    return {"bootstrap.servers": ",".join(servers(broker)), "log_level": 0}
