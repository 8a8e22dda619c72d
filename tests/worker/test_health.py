"""/health, /live and /ready: what they say; and how the server answers requests that are wrong, slow or many."""

import asyncio
import json
import socket
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

from streamjobs.errors import SetupError
from streamjobs.settings.sections import MetricsSection
from streamjobs.worker.health import STALLED, Health
from streamjobs.worker.health import connection as connection_module
from streamjobs.worker.health.server import Server
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.run import _Worker
from tests.worker.fakes import Worker, get, stream, until


def test_the_states_of_a_worker_answer_with_the_right_status(served):
    health, port = served
    for state, expected in (("starting", 200), ("recovering", 200), ("running", 200), ("stopping", 503), ("failed", 503)):
        health.state = state
        status, body = get(port, "/health")
        assert (status, json.loads(body)["state"]) == (expected, state)


def test_a_worker_is_live_from_its_start_and_ready_while_it_runs(served):
    health, port = served
    for state, remaining, ready, reason in (
        ("starting", 0, 503, "no broker has answered yet"),
        ("recovering", 0, 503, "the worker does not have its partitions yet"),
        ("recovering", 7, 503, "7 changelog records are still to be read"),
        ("running", 0, 200, ""),
        ("stopping", 0, 503, "the worker is stopping"),
    ):
        health.state, health.metrics.remaining = state, remaining
        assert get(port, "/live") == (200, '{"live": true, "reason": ""}')
        status, body = get(port, "/ready")
        assert (status, json.loads(body)) == (ready, {"ready": not reason, "reason": reason})
    health.state, health.reason = "failed", "the disk is full"
    assert json.loads(get(port, "/ready")[1])["reason"] == "the disk is full"


def test_a_worker_that_no_broker_has_answered_yet_says_so():
    status, body = Health(Metrics("in")).answer()
    assert (status, body["state"], body["reason"]) == (200, "starting", "no broker has answered yet")


def test_a_loop_that_stands_still_is_neither_live_nor_ready():
    health = Health(Metrics("in"), state="running", last_turn=100.0, last_answer=160.0)
    assert health.live(100.0 + STALLED - 1)[0] == health.ready(100.0 + STALLED - 1)[0] == 200
    for status, body in (health.live(100.0 + STALLED + 1), health.ready(100.0 + STALLED + 1)):
        assert status == 503 and "event loop has not run" in body["reason"]


def test_a_worker_that_no_broker_answers_is_live_and_not_ready():
    health = Health(Metrics("in"), state="running", last_turn=160.0, last_answer=100.0)
    now = 100.0 + STALLED + 1
    assert health.live(now)[0] == 200
    assert health.ready(now) == (503, {"ready": False, "reason": "no broker has answered for 61 s"})


def test_a_recovery_that_waits_for_the_brokers_names_them():
    health = Health(Metrics("in"), state="recovering", last_turn=160.0, last_answer=100.0)
    health.metrics.set_recovery(6002)
    assert health.ready(161.0)[1]["reason"] == "no broker has answered for 61 s"
    assert health.ready(159.0)[1]["reason"] == "6002 changelog records are still to be read"


def test_a_loop_that_stands_still_is_not_healthy():
    health = Health(Metrics("in"), state="running", last_turn=100.0)
    assert health.answer(100.0 + STALLED - 1)[0] == 200
    status, body = health.answer(100.0 + STALLED + 1)
    assert status == 503 and "event loop has not run" in body["reason"]


def test_a_worker_that_no_broker_answers_is_not_healthy_though_nothing_is_behind():
    health = Health(Metrics("in"), state="running", last_turn=160.0, last_answer=100.0)
    assert health.answer(100.0 + STALLED - 1)[0] == 200
    status, body = health.answer(100.0 + STALLED + 1)
    assert status == 503 and body["reason"] == "no broker has answered for 61 s"


def test_a_worker_behind_without_commits_is_not_healthy():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        metrics = delivery.metrics
        metrics.end_of = lambda partition: 50
        health = Health(metrics, state="running")
        behind = health.answer(time.monotonic() + STALLED + 1)
        worker.fetch(0, stream(50))
        await worker.settle()
        await delivery.held[0].checkpoints.take()
        return behind, health.answer()

    (status, behind), (later, fine) = asyncio.run(body())
    assert status == 503 and behind["lag"] == {"0": 50} and behind["partitions"] == [0]
    assert later == 200 and fine["lag"] == {"0": 0} and fine["last_commit_age_seconds"] < 60


def test_a_wall_clock_that_jumps_is_no_reason(monkeypatch):
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        delivery.metrics.end_of, real = lambda partition: 50, time.time
        health = Health(delivery.metrics, state="running")
        answers = []
        for jump in (3600, -3600):
            monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
            answers.append(health.answer()[0])
        return answers

    assert asyncio.run(body()) == [200, 200]


def test_records_that_come_after_a_quiet_hour_have_not_waited_for_an_hour():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0, 1)
        metrics, ends = delivery.metrics, {0: 0, 1: 0}
        metrics.end_of = ends.get
        health, now = Health(metrics, state="running"), time.monotonic()
        metrics.last_commit = time.time() - 3600
        for one in metrics.partitions():
            one.committed_at = one.caught_up_at = now - 3600
        metrics.note_caught_up()
        ends[0] = 1
        metrics.note_caught_up()
        fresh = health.answer(now)
        metrics.last_commit = time.time() + 3600  # the clock went back
        return fresh, metrics.uncommitted(), health.answer(time.monotonic() + STALLED + 1)

    (status, fresh), uncommitted, (later, behind) = asyncio.run(body())
    assert (status, fresh["reason"], fresh["lag"]) == (200, "", {"0": 1, "1": 0}) and uncommitted < 60
    assert behind["last_commit_age_seconds"] == 0
    assert fresh["last_commit_age_seconds"] >= 3600
    assert later == 503 and behind["reason"].startswith("records of partition 0 are waiting, and none of their offsets")


def test_a_worker_notes_by_itself_that_no_record_waits():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        delivery.metrics.end_of = lambda partition: 0
        (one,) = delivery.metrics.partitions()
        one.caught_up_at -= 3600
        running = _Worker(None, None, delivery.metrics, Health(delivery.metrics), None)
        watchdog = SimpleNamespace(check=lambda: asyncio.sleep(0))
        app = SimpleNamespace(delivery=delivery, waiting={0}, consumer=SimpleNamespace(fetched_to={}), leaders=None)
        await running._monitor(app, watchdog, {})
        return time.monotonic() - one.caught_up_at

    assert asyncio.run(body()) < 60


def test_one_partition_that_stands_still_is_not_hidden_by_another_that_commits():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        delivery.metrics.end_of = lambda partition: 50
        delivery.metrics.record_commit(time.time())  # of another partition
        health, now = Health(delivery.metrics, state="running"), time.monotonic()
        return health.answer(now), health.answer(now + STALLED + 1)

    (status, _), (later, behind) = asyncio.run(body())
    assert (status, later) == (200, 503)
    assert (
        behind["reason"]
        == f"records of partition 0 are waiting, and none of their offsets was committed for {STALLED + 1:.0f} s"
    )


def test_a_partition_that_waits_while_another_applies_records_again_does_not_stand_still():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        one, metrics = delivery.held[0].partition, delivery.metrics
        one.take_over(30, None, lambda report, seconds: None)
        metrics.end_of = lambda partition: 50
        health = Health(metrics, state="running")
        async with one.turns.again:  # as another partition does for more than a minute
            worker.fetch(0, stream(50))
            await until(lambda: one._taken)
            one.committed_at = one.caught_up_at = time.monotonic() - STALLED - 1
            during = health.answer()[0], metrics.uncommitted()
        await until(lambda: one.next > 30)
        return during, health.answer()[0]

    assert asyncio.run(body()) == ((200, 0.0), 200)


def test_a_taken_port_is_one_clear_sentence(served):
    _, port = served
    other = Server(MetricsSection(port=port), Health(Metrics()))
    with pytest.raises(SetupError, match=rf"127.0.0.1:{port}: cannot listen \(Address already in use\); another worker"):
        other.start()


def answer_to(port, request):
    """The whole answer to bytes sent as they are."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /metrics?name=x HTTP/1.1", b"200 OK"),
        (b"GET http://worker:9108/health HTTP/1.0", b"200 OK"),
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"\x16\x03\x01\x00\xff", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1 x", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000, b"431 Request Header Fields Too Large"),
    ],
)
def test_a_request_gets_its_status_whatever_it_is(served, request_line, status):
    _, port = served
    answer = answer_to(port, request_line + b"\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.") and answer[9:].startswith(status)


def test_a_head_request_gets_the_length_and_no_body(served):
    _, port = served
    head, _, body = answer_to(port, b"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
    assert body == b"" and b"Content-Length: " in head and b"Content-Length: 0" not in head


def test_a_header_of_many_fields_is_too_large_as_a_whole(served):
    _, port = served
    fields = b"".join(b"X-%d: %s\r\n" % (n, b"x" * 900) for n in range(10))
    answer = answer_to(port, b"GET /health HTTP/1.1\r\n" + fields + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large")


def test_a_client_that_ends_its_side_after_the_request_gets_the_answer(served):
    _, port = served
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET /live HTTP/1.0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: connection.recv(1 << 16), b"")).endswith(b'{"live": true, "reason": ""}')


def test_a_client_that_does_not_take_its_answer_ends(served, monkeypatch):
    health, port = served
    monkeypatch.setattr(connection_module, "TAKE_WITHIN", 0.2)
    monkeypatch.setattr(health, "live", lambda: (200, {"x": "x" * 50_000_000}))
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(1.0)
        taken = 0
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 20):
                taken += len(part)
    assert taken < 50_000_000


def test_a_connection_that_does_not_finish_its_header_ends(served, monkeypatch):
    _, port = served
    monkeypatch.setattr(connection_module, "HEADER_WITHIN", 0.2)
    assert answer_to(port, b"GET /metrics HT") == b""


def test_the_oldest_of_too_many_connections_ends(served, monkeypatch):
    _, port = served
    monkeypatch.setattr(connection_module, "MOST_CONNECTIONS", 2)
    connections = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(3)]
    assert connections[0].recv(1) == b""
    for one in connections[1:]:
        one.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert one.recv(12) == b"HTTP/1.1 200"
    for one in connections:
        one.close()


def test_an_error_in_a_page_is_an_answer_and_the_next_request_is_served(served, monkeypatch):
    health, port = served
    with monkeypatch.context() as patched:
        patched.setattr(health, "answer", lambda: 1 / 0)
        assert get(port, "/health")[0] == 500
    assert get(port, "/health")[0] == 200
