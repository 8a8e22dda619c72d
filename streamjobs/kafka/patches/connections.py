"""Lookups, requests and credentials: where aiokafka 0.14.0 would leave a worker idle, hung or closed half-way."""

import asyncio
import ssl
import time
from typing import Any

from aiokafka import errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import AIOKafkaConnection, CloseReason, OAuthAuthenticator
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.producer.sender import AddPartitionsToTxnHandler
from aiokafka.protocol.produce import ProduceRequest

from streamjobs.kafka.secrets import Secret

_coordinator_lookup = AIOKafkaClient.coordinator_lookup
_connect = AIOKafkaConnection.connect
_oauth_step = OAuthAuthenticator.step
_fetch_request = Fetcher._proc_fetch_request
_update_metadata = ClusterMetadata.update_metadata
_request_metadata = AIOKafkaClient._metadata_update
_added_partitions = AddPartitionsToTxnHandler.handle_response

METADATA_AGAIN = 0.5  # seconds after an answer that lacks what was asked for


class Refusals:
    """Connections refused for TLS or credentials since the last successful one; aiokafka only logs them."""

    since: float | None = None  # time.monotonic()
    server: str = ""
    error: BaseException | None = None


class LastAnswer:
    """When a node last answered a request of any client in this process, time.monotonic(); 0: none has yet."""

    at: float = 0.0


class UnknownTopic:
    """When a topic of some client last did not exist, or seemed to be recreated, time.monotonic(); aiokafka goes on."""

    at: float = 0.0


def _note_unknown_topic(self: Any, metadata: Any) -> None:
    if any(topic[0] == errors.UnknownTopicOrPartitionError.errno for topic in metadata.topics):
        UnknownTopic.at = time.monotonic()
    _update_metadata(self, metadata)


def _note_unknown_partition(self: Any, answer: Any) -> Any:
    if any(code == errors.UnknownTopicOrPartitionError.errno for _, partitions in answer.errors for _, code in partitions):
        UnknownTopic.at = time.monotonic()
    return _added_partitions(self, answer)


async def _complete_metadata(self: Any, cluster: Any, topics: Any) -> Any:
    """Ask again soon where the answer names no node, or a topic without its partitions.

    A node that its controller has just cut off answers so. aiokafka asks again after `metadata_max_age_ms` (five minutes):
    a worker that leads its group meanwhile gives every member no partition. Each later answer makes the group join again.
    A topic that does not exist is the watchdog's concern.
    """
    before = UnknownTopic.at
    updated = await _request_metadata(self, cluster, topics)
    lacking = not updated or any(not cluster.partitions_for_topic(topic) for topic in topics or ())
    if cluster is self.cluster and lacking and UnknownTopic.at == before:
        asyncio.get_running_loop().call_later(METADATA_AGAIN, self.force_metadata_update)
    return updated


async def _retriable_lookup(self: Any, kind: Any, key: str) -> Any:
    """Turn every passing problem into an error that all callers retry on.

    A node that its controller has just cut off, or that has just started, answers without any node. aiokafka asserts that
    there is one. The assertion ends the consumer's coordination task permanently, and the worker idles. A connection that
    breaks during the lookup ends a producer permanently.
    """
    if not self.cluster.brokers():
        raise errors.NodeNotReadyError("the broker's metadata names no node yet")
    try:
        return await _coordinator_lookup(self, kind, key)
    except errors.KafkaError as error:
        if error.retriable:
            raise errors.NodeNotReadyError(f"no node knows the coordinator of {key!r} yet: {error}") from error
        raise


async def _send_on_own_connection(self: Any, node_id: int, request: Any, *, group: Any = ConnectionGroup.DEFAULT) -> Any:
    """Wait as long as the node's last answer asks for. When a request times out, close its connection, and no other.

    A node answers a client beyond its quota at once, and then reads nothing of its connection for the time that the answer
    names. A request sent meanwhile may time out, is sent again through another connection, and is read late from the first.
    Late outputs of a transaction that has ended make the node refuse all that follow (OutOfOrderSequenceNumber).

    aiokafka looks that connection up again by its node. If two requests time out together, the first has closed it, and
    the second finds none (KeyError, which ends a producer permanently) or closes the new one made in its place.
    """
    while True:
        if not await self.ready(node_id, group=group):
            raise errors.NodeNotReadyError(f"no connection to node {node_id}")
        connection = self._conns[node_id, group]
        rest = getattr(connection, "throttled_until", 0.0) - time.monotonic()
        if rest <= 0:
            break
        await asyncio.sleep(rest)
    expect_response = not (isinstance(request, ProduceRequest) and request.required_acks == 0)
    try:
        answer = await connection.send(request, expect_response=expect_response)
    except TimeoutError as error:
        connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        raise errors.RequestTimedOutError() from error
    if expect_response:
        LastAnswer.at = time.monotonic()
        if (wait := getattr(answer, "throttle_time_ms", 0)) > 0:
            connection.throttled_until = LastAnswer.at + wait / 1000
    return answer


async def _cancellable_fetch(self: Any, *arguments: Any) -> Any:
    """Let a fetch that is cancelled while it waits to retry end as one that waits for an answer does.

    Otherwise the cancellation escapes and breaks off closing the consumer: connections stay open, with only a traceback.
    """
    try:
        return await _fetch_request(self, *arguments)
    except asyncio.CancelledError:
        return False


async def _connect_with_current_password(self: Any) -> Any:
    """Read the password at each connection, and note refusals in `Refusals`."""
    if isinstance(self._sasl_plain_password, Secret):
        self._sasl_plain_password = self._sasl_plain_password.read()
    try:
        made = await _connect(self)
    except (ssl.SSLError, errors.KafkaError, ValueError, KeyError) as error:
        if not isinstance(error, (ssl.SSLError, errors.KafkaError)):  # a server that does not prove who it is
            error = errors.SaslAuthenticationFailed(f"the server's answer makes no sense ({type(error).__name__})")
        refused = isinstance(error, (ssl.SSLError, errors.SaslAuthenticationFailed)) or isinstance(
            error.__cause__, ssl.SSLError
        )
        if refused:
            Refusals.since = Refusals.since or time.monotonic()
            Refusals.server, Refusals.error = f"{self._host}:{self._port}", error
        raise error
    Refusals.since = None
    return made


async def _oauth_step_with_refusal(self: Any, payload: bytes | None) -> Any:
    """Raise on a refused token: the broker answers with a text and no error code, which aiokafka treats as success."""
    if self._token_sent and payload:
        raise errors.SaslAuthenticationFailed(payload.decode(errors="replace")[:200])
    return await _oauth_step(self, payload)


def apply() -> None:
    AIOKafkaClient.coordinator_lookup = _retriable_lookup
    AIOKafkaClient._metadata_update = _complete_metadata
    AIOKafkaClient.send = _send_on_own_connection
    AIOKafkaConnection.connect = _connect_with_current_password
    Fetcher._proc_fetch_request = _cancellable_fetch
    OAuthAuthenticator.step = _oauth_step_with_refusal
    ClusterMetadata.update_metadata = _note_unknown_topic
    AddPartitionsToTxnHandler.handle_response = _note_unknown_partition
