"""What aiokafka 0.14.0 does wrong for us, answered in its own classes; `apply` once per process, before any client."""

import asyncio
import ssl
import time
from typing import Any

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import AIOKafkaConnection, CloseReason, OAuthAuthenticator
from aiokafka.consumer.fetcher import Fetcher, PartitionRecords
from aiokafka.errors import KafkaError, NodeNotReadyError, RequestTimedOutError, SaslAuthenticationFailed
from aiokafka.protocol.produce import ProduceRequest

from streamjobs.core.messages import Stored
from streamjobs.kafka.patches import batches, unpacking
from streamjobs.kafka.secrets import Secret

_lookup = AIOKafkaClient.coordinator_lookup
_connect = AIOKafkaConnection.connect
_step = OAuthAuthenticator.step
_fetch = Fetcher._proc_fetch_request


class Refused:
    """Connections that were refused for TLS or credentials since the last one that was not."""

    since: float | None = None  # time.monotonic()
    server: str = ""
    error: BaseException | None = None


class Answered:
    """When a node last answered a request of any client here, time.monotonic(); 0: none has yet."""

    at: float = 0.0


async def _patient_lookup(self: Any, kind: Any, key: str) -> Any:
    """Whatever passes by itself is told as an error that all callers ask again after.

    A node that its controller has just cut off, or that has just started, answers without any node. aiokafka asserts that
    there is one; that ends the consumer's group routine for good, and the worker idles. A connection that breaks under the
    question ends a producer for good.
    """
    if not self.cluster.brokers():
        raise NodeNotReadyError("the broker's metadata names no node yet")
    try:
        return await _lookup(self, kind, key)
    except KafkaError as error:
        if error.retriable:
            raise NodeNotReadyError(f"nobody could say where {key!r} is coordinated: {error}") from error
        raise


async def _own_send(self: Any, node_id: int, request: Any, *, group: Any = ConnectionGroup.DEFAULT) -> Any:
    """A request that times out closes the connection it went through, and no other.

    aiokafka looks that connection up again by its node: where two requests time out together, the first has closed it, so
    that the second finds none (KeyError, which ends a producer for good) or closes the one just made in its place.
    """
    if not await self.ready(node_id, group=group):
        raise NodeNotReadyError(f"no connection to node {node_id}")
    connection = self._conns[node_id, group]
    answered = not (isinstance(request, ProduceRequest) and request.required_acks == 0)
    try:
        answer = await connection.send(request, expect_response=answered)
    except TimeoutError as error:
        connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        raise RequestTimedOutError() from error
    if answered:
        Answered.at = time.monotonic()
    return answer


async def _ending_fetch(self: Any, *arguments: Any) -> Any:
    """Cancelled while it waits to try again, it ends as it does while it waits for an answer.

    What it lets escape breaks off the consumer's closing: connections stay open, and a traceback is all that is told.
    """
    try:
        return await _fetch(self, *arguments)
    except asyncio.CancelledError:
        return False


def _lean_record(self: Any, tp: Any, record: Any) -> Stored:
    """The core's own tuples of fetched records; aiokafka's data class costs 0.6 us more a record."""
    return Stored(tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value, record.headers)


async def _noted_connect(self: Any) -> Any:
    """With the password as it is now; and whoever watches (`Refused`) learns of refusals, which aiokafka only logs."""
    if isinstance(self._sasl_plain_password, Secret):
        self._sasl_plain_password = self._sasl_plain_password.read()
    try:
        made = await _connect(self)
    except (ssl.SSLError, KafkaError, ValueError, KeyError) as error:
        if not isinstance(error, (ssl.SSLError, KafkaError)):  # a server that does not prove who it is
            error = SaslAuthenticationFailed(f"the server's answer makes no sense ({type(error).__name__})")
        trust = isinstance(error, (ssl.SSLError, SaslAuthenticationFailed)) or isinstance(error.__cause__, ssl.SSLError)
        if trust:
            Refused.since = Refused.since or time.monotonic()
            Refused.server, Refused.error = f"{self._host}:{self._port}", error
        raise error
    if self._ssl_context is not None:
        Refused.since = None
    return made


async def _answered_step(self: Any, payload: bytes | None) -> Any:
    """A refused token is answered in words and without an error code; aiokafka takes that for a welcome."""
    if self._token_sent and payload:
        raise SaslAuthenticationFailed(payload.decode(errors="replace")[:200])
    return await _step(self, payload)


def apply() -> None:
    AIOKafkaClient.coordinator_lookup = _patient_lookup
    AIOKafkaClient.send = _own_send
    AIOKafkaConnection.connect = _noted_connect
    Fetcher._proc_fetch_request = _ending_fetch
    OAuthAuthenticator.step = _answered_step
    PartitionRecords._consumer_record = _lean_record
    unpacking.apply()
    batches.apply()
