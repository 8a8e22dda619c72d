"""How every client of this job reaches the broker; one place for addresses now and credentials later."""

from typing import Any

from streamjobs.config import BrokerSection

DEFAULT_PORT = 9092
# Of a connection whose other end is gone and did not say so nothing else tells. Nothing but joining a group waits longer.
REQUEST_TIMEOUT_MS = 15_000


def servers(broker: BrokerSection) -> list[str]:
    """ "kafka://a,b:9093" -> ["a:9092", "b:9093"]."""
    hosts = broker.url.partition("://")[2] if "://" in broker.url else broker.url
    found = [host.strip().rpartition("://")[2] for host in hosts.replace(";", ",").split(",") if host.strip()]
    return [host if ":" in host else f"{host}:{DEFAULT_PORT}" for host in found]


def for_aiokafka(broker: BrokerSection) -> dict[str, Any]:
    return {"bootstrap_servers": servers(broker), "request_timeout_ms": REQUEST_TIMEOUT_MS}


def for_faust(broker: BrokerSection) -> list[str]:
    return [f"kafka://{server}" for server in servers(broker)]


def for_confluent(broker: BrokerSection) -> dict[str, Any]:
    return {"bootstrap.servers": ",".join(servers(broker)), "log_level": 0}
