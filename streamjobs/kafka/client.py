"""Settings of every Kafka client: the one place for addresses and credentials; and their errors in one sentence."""

import functools
import socket
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from streamjobs.errors import SetupError
from streamjobs.kafka import handshake, patches, timeouts
from streamjobs.kafka.certificates import context_of, subject
from streamjobs.kafka.secrets import secret_of
from streamjobs.kafka.tokens import Provider, Tokens, claims, tokens_of
from streamjobs.settings.broker import BrokerSection

DEFAULT_PORT = 9092
TOKEN_GRACE = 60.0  # seconds of life claimed for a token that has expired by this clock
NO_ANSWER = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)
NOT_MADE = "missing; create it with 'streamjobs topics create', run the job once, or correct {}."
NO_INPUT = "it does not exist; correct [source] topic, or create it with 'streamjobs topics create'."

_context_of = functools.cache(context_of)


def servers(broker: BrokerSection) -> list[str]:
    """ "kafka://a,b:9093" -> ["a:9092", "b:9093"]."""
    hosts = broker.url.partition("://")[2] if "://" in broker.url else broker.url
    named = [host.strip().rpartition("://")[2] for host in hosts.replace(";", ",").split(",") if host.strip()]
    return [host if ":" in host else f"{host}:{DEFAULT_PORT}" for host in named]


def for_aiokafka(broker: BrokerSection) -> dict[str, Any]:
    """Settings of aiokafka's clients. Raises ConfigError where a file cannot be read.

    Passwords and tokens are read again at each connection.
    """
    return {"bootstrap_servers": servers(broker), "request_timeout_ms": timeouts.REQUEST_MS, **credentials(broker)}


def credentials(broker: BrokerSection) -> dict[str, Any]:
    """The security settings of aiokafka's clients; {} for plaintext."""
    if broker.reached == "plaintext":
        return {}
    patches.apply()
    settings: dict[str, Any] = {"security_protocol": broker.reached.upper(), "ssl_context": _context_of(broker)}
    if broker.sasl == "OAUTHBEARER":
        settings |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider(tokens_of(broker))}
    elif broker.sasl is not None:
        password = secret_of(broker, "password")
        assert password is not None
        password.read()
        settings |= {"sasl_mechanism": broker.sasl, "sasl_plain_username": broker.username, "sasl_plain_password": password}
    return settings


def for_faust(broker: BrokerSection) -> dict[str, Any]:
    """Settings of a Faust app: its broker and credentials."""
    address: dict[str, Any] = {"broker": [f"kafka://{server}" for server in servers(broker)]}
    settings = credentials(broker)
    if not settings:
        return address
    from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials  # commands need no Faust

    context = settings["ssl_context"]
    if broker.sasl == "OAUTHBEARER":
        known: Any = OAuthCredentials(oauth_cb=settings["sasl_oauth_token_provider"], ssl_context=context)
    elif broker.sasl is not None:
        known = SASLCredentials(
            username=broker.username, password=settings["sasl_plain_password"], ssl_context=context, mechanism=broker.sasl
        )
    else:
        known = SSLCredentials(context)
    return {**address, "broker_credentials": known}


def for_confluent(broker: BrokerSection) -> dict[str, Any]:
    """Settings of librdkafka's clients. Verifies the credentials first: librdkafka retries for ever and never says why.

    Raises SetupError with one sentence where the broker refuses them or cannot be trusted. Never call it in an event loop.
    """
    settings: dict[str, Any] = {"bootstrap.servers": ",".join(servers(broker)), "log_level": 0}
    if broker.reached == "plaintext":
        return settings
    verify(broker)
    settings |= {"security.protocol": broker.reached, "ssl.ca.location": broker.ca_file or "probe"}
    if broker.certificate_file is not None:
        settings["ssl.certificate.location"] = broker.certificate_file
        settings["ssl.key.location"] = broker.key_file or broker.certificate_file
        key_password = secret_of(broker, "key_password")
        if key_password is not None:
            settings["ssl.key.password"] = key_password.read()
    if broker.sasl == "OAUTHBEARER":
        tokens = tokens_of(broker)
        settings |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: _unexpired(tokens)}
    elif broker.sasl is not None:
        password = secret_of(broker, "password")
        assert password is not None
        settings |= {"sasl.mechanism": broker.sasl, "sasl.username": broker.username, "sasl.password": password.read()}
    return settings


def _unexpired(tokens: Tokens) -> tuple[str, float]:
    """The broker decides whether a token has expired; librdkafka would raise on one that has by this clock."""
    token, expires = tokens.current()
    return token, max(expires, time.time() + TOKEN_GRACE)


def verify(broker: BrokerSection, *, every: bool = False) -> list[handshake.Verified]:
    """Connect once to a server, or to every one. Raises SetupError with one sentence where the connection is refused."""
    return handshake.verify(broker, servers(broker), credentials(broker), every=every)


def unanswered(broker: BrokerSection, error: Exception, *, within: float | None = None) -> SetupError:
    """The error, in one sentence, of a broker that did not answer a client or refused it."""
    if broker.reached == "plaintext":
        try:
            verify(broker)
        except SetupError as known:
            return known
    where = f"broker {','.join(servers(broker))}"
    silent = isinstance(error, TimeoutError) or (isinstance(error, KafkaException) and error.args[0].code() in NO_ANSWER)
    retriable = getattr(error, "retriable", False)  # of aiokafka: a coordinator on another node may be gone
    why = _connection_problem(servers(broker)) if silent or retriable else None
    if silent or why is not None:
        waited = "" if within is None else f" within {within:.0f} s"
        why = why or reason_of(error)
        return SetupError(
            f"{where}: no answer{waited} ({why}); start the broker ('streamjobs broker start' starts one for development), "
            "or correct [broker] url."
        )
    return SetupError(
        f"{where}: {reason_of(error)}; check the broker's log, and the rights of this principal: some commands need more "
        "than a worker."
    )


def partitions_of(asking: Any, topic: str, missing: str = NO_INPUT) -> list[int]:
    """The topic's partitions. asking: a consumer or an admin client. Raises SetupError, saying `missing`, without it."""
    known = asking.list_topics(topic, timeout=timeouts.LOOKUP).topics.get(topic)
    if known is None or known.error is not None or not known.partitions:
        raise SetupError(f"topic {topic}: {missing}")
    return sorted(known.partitions)


def _connection_problem(addresses: Sequence[str]) -> str | None:
    """Why connecting fails, for the first address where it does: librdkafka does not say."""
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeouts.REACHABLE).close()
        except (OSError, ValueError) as error:
            return f"{address}: {getattr(error, 'strerror', None) or error}".lower()
    return None


def reason_of(error: Exception) -> str:
    """The text of a librdkafka client's error, for the middle of a sentence."""
    return str(error.args[0].str()).rstrip(".") if isinstance(error, KafkaException) else str(error) or "no answer"


def forbidden(error: Exception) -> bool:
    """Whether a client of librdkafka was refused because a right on a topic is missing."""
    return isinstance(error, KafkaException) and bool(error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)


def principal(broker: BrokerSection) -> str:
    """The principal the broker derives from these credentials, by its default rules; '?' for an unknown part."""
    if broker.sasl == "OAUTHBEARER":
        return f"User:{claims(tokens_of(broker).current()[0]).get('sub', '?')}"
    if broker.sasl is not None:
        return f"User:{broker.username}"
    if broker.reached == "ssl" and broker.certificate_file is not None:
        return f"User:{subject(broker.certificate_file) or '?'}"
    return "User:ANONYMOUS"
