"""What aiokafka gets wrong: a cluster that names no node yet, and a group routine that died."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import (
    KafkaConnectionError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    RequestTimedOutError,
    SaslAuthenticationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartitionError,
)
from aiokafka.protocol.admin import ApiVersionRequest
from aiokafka.protocol.metadata import MetadataResponse_v5 as MetadataResponse

from streamjobs.kafka import patches
from streamjobs.kafka.client import unanswered
from streamjobs.kafka.patches import connections
from streamjobs.kafka.patches.connections import LastAnswer
from streamjobs.kafka.secrets import Secret
from streamjobs.settings.broker import BrokerSection
from streamjobs.worker.consumer import ConsumerThread
from streamjobs.worker.failures import DeliveryError


def test_a_cluster_that_names_no_node_yet_is_asked_again() -> None:
    async def lookup() -> None:
        patches.apply()
        await AIOKafkaClient(bootstrap_servers="127.0.0.1:1").coordinator_lookup(0, "group")

    with pytest.raises(NodeNotReadyError) as raised:
        asyncio.run(lookup())
    assert raised.value.retriable


class Answers:
    """A connection that answers each request for metadata with the next of `answers`, the last one for ever."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers, self.asked = answers, 0

    async def send(self, _: object) -> Any:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]

    def close(self, **_: object) -> None: ...


def metadata(*, nodes: bool = True, error: int = 0, partitions: int = 1) -> Any:
    brokers = [(1, "127.0.0.1", 1, None)] if nodes else []
    found = [(0, number, 1, [1], [1], []) for number in range(partitions)]
    return MetadataResponse(0, brokers, "cluster", 1, [(error, "in", False, found)])


@pytest.mark.parametrize(
    ("poor", "again"),
    [
        (metadata(nodes=False), True),  # the node is cut off from its controller
        (metadata(error=LeaderNotAvailableError.errno, partitions=0), True),
        (metadata(error=UnknownTopicOrPartitionError.errno, partitions=0), False),  # the watchdog looks after that
        (metadata(), False),
    ],
)
def test_metadata_without_nodes_or_partitions_is_asked_for_again(
    poor: Any, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "METADATA_AGAIN", 0.0)
    node = Answers([poor, metadata()])

    async def ask() -> set[int] | None:
        patches.apply()
        client: Any = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")

        async def connection(*_: object, **__: object) -> Answers:
            return node

        client._get_conn, client.cluster.brokers = connection, lambda: [SimpleNamespace(nodeId=1)]
        client._sync_task = asyncio.ensure_future(client._md_synchronizer())
        await asyncio.wait_for(client.set_topics(["in"]), 30)
        for _ in range(20):
            await asyncio.sleep(0)
        await client.close()
        found: set[int] | None = client.cluster.partitions_for_topic("in")
        return found

    found = asyncio.run(ask())
    assert node.asked == 1 + again
    assert found == ({0} if again or poor.topics[0][0] == 0 else None)


@pytest.mark.parametrize("again", [True, False])
def test_a_connection_that_breaks_under_the_question_for_a_coordinator_is_asked_again(again: bool) -> None:
    problem = KafkaConnectionError("closed") if again else TransactionalIdAuthorizationFailed("job-0")

    async def broken(*_: object, **__: object) -> None:
        raise problem

    async def lookup() -> None:
        patches.apply()
        client: Any = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
        client.cluster.brokers, client.get_random_node, client.send = lambda: {1}, lambda: 1, broken
        await client.coordinator_lookup(1, "job-0")

    with pytest.raises(NodeNotReadyError if again else TransactionalIdAuthorizationFailed):
        asyncio.run(lookup())


class Silent:
    """A connection nobody answers on. `made` are all that the client has had; closing one brings the next."""

    def __init__(self, conns: dict[Any, "Silent"], made: list["Silent"]) -> None:
        self.conns, self.made, self.open = conns, made, True
        made.append(self)
        conns[1, ConnectionGroup.DEFAULT] = self

    async def send(self, request: object, expect_response: bool) -> None:
        await asyncio.sleep(0.01)
        raise TimeoutError

    def close(self, reason: object) -> None:
        if self.open:
            self.open = False
            Silent(self.conns, self.made)

    def connected(self) -> bool:
        return self.open


def test_requests_that_time_out_together_close_their_own_connection_and_no_other() -> None:
    made: list[Silent] = []

    async def two() -> list[Any]:
        patches.apply()
        client, request = AIOKafkaClient(bootstrap_servers="127.0.0.1:1"), ApiVersionRequest()
        Silent(client._conns, made)
        errors = await asyncio.gather(client.send(1, request), client.send(1, request), return_exceptions=True)
        client._conns.clear()
        return errors

    assert [type(error) for error in asyncio.run(two())] == [RequestTimedOutError, RequestTimedOutError]
    assert [one.open for one in made] == [False, True]


class Throttling(Silent):
    """A connection whose node answers at once, and asks for a wait before the next request."""

    def __init__(self, conns: dict[Any, Silent], made: list[Silent], wait: int) -> None:
        super().__init__(conns, made)
        self.wait, self.sent = wait, list[float]()

    async def send(self, request: object, expect_response: bool) -> SimpleNamespace:
        self.sent.append(time.monotonic())
        return SimpleNamespace(throttle_time_ms=self.wait)


@pytest.mark.parametrize("wait", [0, 200])
def test_a_client_beyond_its_quota_sends_nothing_for_the_time_that_the_answer_names(wait: int) -> None:
    """A node does not read the connection meanwhile: what is sent would time out, be sent again, and be read late."""

    async def two() -> list[float]:
        patches.apply()
        client, request = AIOKafkaClient(bootstrap_servers="127.0.0.1:1"), ApiVersionRequest()
        connection = Throttling(client._conns, [], wait)
        await client.send(1, request)
        await client.send(1, request)
        client._conns.clear()
        return connection.sent

    first, second = asyncio.run(two())
    assert (second - first >= 0.19) == (wait > 0)


def test_a_request_that_times_out_when_its_connection_is_gone_is_only_a_timeout() -> None:
    async def gone() -> None:
        patches.apply()
        client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
        Silent(client._conns, [])
        sending = asyncio.ensure_future(client.send(1, ApiVersionRequest()))
        await asyncio.sleep(0)
        client._conns.clear()  # closed by another request's timeout, and a new one is not yet there
        await sending

    with pytest.raises(RequestTimedOutError):
        asyncio.run(gone())


def test_each_connection_gets_the_password_of_now_and_one_that_is_accepted_ends_a_refusal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    secret, got = Secret("password", None, str(file)), list[Any]()

    async def connect(self: Any) -> Any:
        got.append(self._sasl_plain_password)
        return "made"

    monkeypatch.setattr(connections, "_connect", connect)
    monkeypatch.setattr(connections.Refusals, "since", 5.0)
    for password in ("first", "second"):
        file.write_text(password)
        file.chmod(0o600)
        one = SimpleNamespace(_sasl_plain_password=secret)
        assert asyncio.run(connections._connect_with_current_password(one)) == "made"
    assert got == ["first", "second"] and connections.Refusals.since is None


def test_a_token_that_the_broker_refuses_with_a_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(self: Any, payload: bytes | None) -> Any:
        return b"next", True

    monkeypatch.setattr(connections, "_oauth_step", step)
    for sent, payload in ((False, None), (False, b"hello"), (True, b""), (True, None)):
        one = SimpleNamespace(_token_sent=sent)
        assert asyncio.run(connections._oauth_step_with_refusal(one, payload)) == (b"next", True)
    with pytest.raises(SaslAuthenticationFailed, match="invalid_token"):
        asyncio.run(connections._oauth_step_with_refusal(SimpleNamespace(_token_sent=True), b'{"status":"invalid_token"}'))


def test_a_fetch_that_waits_to_try_again_ends_without_breaking_off_the_consumers_closing() -> None:
    async def broken(*_: object) -> None:
        raise KafkaConnectionError("closed")

    async def close() -> list[asyncio.Task[bool]]:
        patches.apply()
        client: Any = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
        client.send = broken
        fetcher = Fetcher(client, SubscriptionState(), retry_backoff_ms=60_000)
        request = SimpleNamespace(topics=[])
        fetches = [asyncio.ensure_future(fetcher._proc_fetch_request(None, 1, request)) for _ in range(2)]
        await asyncio.sleep(0)  # both wait now
        fetcher._pending_tasks.update(fetches)
        await fetcher.close()
        return fetches

    assert [one.result() for one in asyncio.run(close())] == [False, False]


@pytest.mark.parametrize("answers", [True, False])
def test_only_a_request_that_is_answered_counts_as_a_sign_of_a_broker(
    monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    class Answering(Silent):
        async def send(self, request: object, expect_response: bool) -> None:
            if not answers:
                await super().send(request, expect_response)

    async def ask() -> None:
        patches.apply()
        client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
        Answering(client._conns, [])
        await asyncio.gather(client.send(1, ApiVersionRequest()), return_exceptions=True)
        client._conns.clear()

    monkeypatch.setattr(LastAnswer, "at", 0.0)
    asyncio.run(ask())
    assert (LastAnswer.at > 0) == answers


def test_a_dead_group_routine_fails_the_worker_and_an_ended_one_does_not() -> None:
    failed: list[BaseException] = []

    async def routine(problem: Exception | None) -> None:
        if problem is not None:
            raise problem

    async def run(problem: Exception | None) -> None:
        thread: Any = SimpleNamespace(
            parent_loop=asyncio.get_running_loop(), app=SimpleNamespace(delivery=SimpleNamespace(fail=failed.append))
        )
        task = asyncio.ensure_future(routine(problem))
        await asyncio.wait([task])
        ConsumerThread._on_coordination_ended(thread, task)
        await asyncio.sleep(0)

    asyncio.run(run(None))
    assert not failed
    asyncio.run(run(AssertionError("Did we not perform bootstrap?")))
    (error,) = failed
    assert isinstance(error, DeliveryError) and "Did we not perform bootstrap?" in str(error)


def test_a_node_that_is_gone_is_named_when_a_coordinator_does_not_answer() -> None:
    gone = BrokerSection(url="kafka://127.0.0.1:1")
    assert "no answer (127.0.0.1:1: connection refused); start the broker" in str(unanswered(gone, NodeNotReadyError()))
    assert "the rights of this principal" in str(unanswered(gone, TransactionalIdAuthorizationFailed()))
