"""The page without a browser: who may see it, and that slow and many viewers cost little."""

import asyncio
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from streamjobs.core.messages import BatchRows, Letter, Report
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.settings.load import settings_from
from streamjobs.worker import page as pages
from streamjobs.worker.backpressure import Turns
from streamjobs.worker.health import Health
from streamjobs.worker.health.connection import MOST_CONNECTIONS
from streamjobs.worker.health.server import Server
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.page import Page, web
from streamjobs.worker.page.access import Access, is_loopback
from streamjobs.worker.page.ask import Asker
from streamjobs.worker.page.figures import Figures

JOB: dict[str, Any] = {"source": {"topic": "in", "dim": 2}, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}
CORE = SimpleNamespace(job=SimpleNamespace(sinks={"dlq": "in.dlq"}, model="okfeb"))
TOKEN = "0123456789abcdef0123"


def settings(token: str | None = None, **metrics: Any) -> Any:
    environment = {} if token is None else {"STREAMJOBS_METRICS__TOKEN": token}
    return settings_from({**JOB, "metrics": {"port": 0, **metrics}}, environment)


@contextmanager
def served(monkeypatch: Any = None, token: str | None = None, **metrics: Any) -> Iterator[tuple[int, Metrics]]:
    """A page's port, without a job behind it."""
    if monkeypatch is not None:
        monkeypatch.setattr(pages, "EVERY", 0.05)
    chosen = settings(token, **metrics)
    page = Page(chosen, CORE, None)  # type: ignore[arg-type]
    health = Health(Metrics("in", "okfeb"))
    server = Server(chosen.metrics, health, page.serve(health))
    try:
        yield server.start(), health.metrics
    finally:
        server.stop()


def get(port: int, path: str = "/", body: str | None = None, **headers: str) -> tuple[int, Any, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    kind = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
    connection.request("POST" if body else "GET", path, body, {**kind, **headers})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()


def events(port: int, count: int, path: str = "/events", **headers: str) -> list[tuple[str, Any]]:
    """The first so many events."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers=headers)
    answer, found = connection.getresponse(), []
    while len(found) < count:
        line = answer.readline().decode()
        assert line, "the stream has ended"
        if line.startswith("event: "):
            found.append((line[7:].strip(), json.loads(answer.readline().decode()[6:])))
    connection.close()
    return found


def test_on_loopback_the_page_is_there_and_nothing_in_it_may_run_that_is_not_its_own() -> None:
    with served() as (port, _):
        status, headers, text = get(port)
        assert status == 200 and "<title>streamjobs</title>" in text
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';") and "unsafe" not in policy
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
        for name, kind in web.FILES.items():
            status, headers, text = get(port, f"/page/{name}")
            assert status == 200 and headers["Content-Type"].startswith(kind) and "://cdn" not in text
        assert get(port, "/page/index.html")[0] == get(port, "/page/..%2fweb.py")[0] == get(port, "/other")[0] == 404
        assert get(port, "/metrics")[0] == 200 and get(port, "/health")[0] == 200


def test_every_address_is_relative_so_that_a_proxy_may_serve_the_page_under_a_path() -> None:
    for path in web.STATIC.glob("*.*"):
        text = path.read_text() if "uPlot" not in path.name and path.suffix in (".html", ".js") else ""
        assert re.findall(r"""(?:href|src|action)="/[^"]*|(?:fetch|EventSource)\([`'"]/.*""", text) == [], path.name


def test_uplot_is_the_version_that_its_notice_names() -> None:
    head = (web.STATIC / "uPlot.iife.min.js").read_text()[:80]
    notice = (web.STATIC / "__init__.py").read_text()
    assert "uPlot (v1.6.32)" in head and "uPlot 1.6.32 (MIT" in notice
    assert "Leon Sorokin" in (web.STATIC / "uPlot.LICENSE").read_text()


@pytest.mark.parametrize("host", ["evil.example", "10.0.0.5:9108", "127.0.0.1.evil.example", ""])
def test_a_site_whose_name_resolves_to_this_machine_reads_nothing(host: str) -> None:
    with served() as (port, _):
        for path in ("/", "/events", "/api/keys/p7"):
            status, _, text = get(port, path, Host=host)
            assert status == 421 and "expected a Host of this machine" in text
        assert get(port, Host="localhost:9108")[0] == get(port, Host="[::1]:1")[0] == 200


def test_elsewhere_there_is_no_page_without_a_token() -> None:
    assert is_loopback("127.0.0.1") and is_loopback("localhost") and not is_loopback("0.0.0.0") and not is_loopback("")
    with served(host="0.0.0.0") as (port, metrics):
        assert get(port)[0] == get(port, "/events")[0] == get(port, "/api/keys/p7")[0] == 404
        assert get(port, "/metrics")[0] == 200 and metrics.on_report is None


def test_without_a_page_predictions_are_judged_too() -> None:
    chosen = settings_from({**JOB, "source": {**JOB["source"], "label": "y"}, "metrics": {"host": "0.0.0.0"}}, {})
    page, health = Page(chosen, CORE, None), Health(Metrics("in", "okfeb"))  # type: ignore[arg-type]
    assert page.serve(health) is None and health.metrics.on_report is not None
    rows = BatchRows(["k"] * 4, np.arange(4.0), np.zeros(4), ["a", "b", "b", "a"], ["a", "a", "b", "b"])
    health.metrics.on_report(Report(rows=4, batches=[rows]))
    assert page.scores() == {"accuracy": {"rows": 3, "model": 0.3333, "last_label": 0.6667, "majority": 0.3333}}


def test_with_a_token_a_header_or_a_cookie_opens_the_page() -> None:
    with served(token=TOKEN, host="0.0.0.0") as (port, _):
        for path in ("/events", "/api/keys/p7"):
            assert get(port, path)[0] == get(port, path, Authorization="Bearer wrong")[0] == 401
        status, _, text = get(port, Host="worker.example")
        assert status == 401 and 'type="password"' in text
        assert get(port, Authorization=f"Bearer {TOKEN}")[0] == 200
        assert get(port, f"/?token={TOKEN}")[0] == 401  # never in a URL
        status, headers, _ = get(port, "/login", "token=wrong")
        assert status == 401 and headers["Set-Cookie"] is None
        status, headers, _ = get(port, "/login", f"token={TOKEN}")
        cookie = headers["Set-Cookie"]
        assert (status, headers["Location"]) == (303, "./") and "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert TOKEN not in cookie and "Path" not in cookie, "the browser takes the path under which a proxy serves the page"
        session = cookie.partition(";")[0]
        assert get(port, Cookie=session)[0] == 200 and get(port, Cookie=session + "x")[0] == 401
        assert get(port, "/metrics")[0] == 200  # as it was


def test_a_token_that_is_short_or_cannot_be_read_is_one_sentence(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match=r"\[metrics\]: the token must have 16 characters or more"):
        Access(settings(token="short").metrics)
    with pytest.raises(ConfigError, match=r"\[metrics\]: token_file '.*none' cannot be read"):
        Access(settings(token_file=str(tmp_path / "none")).metrics)


def test_a_viewer_gets_everything_and_then_what_each_look_adds(monkeypatch: Any) -> None:
    with served(monkeypatch) as (port, metrics):
        assert metrics.on_report is not None
        rows = BatchRows(["p7", "p7"], np.array([1.0, 2.0]), np.array([0.5, np.nan]), ["row", "row"], ["row", None])
        metrics.on_report(Report(rows=2, batches=[rows], letters=[Letter("p7", 0, 4, "malformed", "expected json")]))
        found = events(port, 4)
        assert [kind for kind, _ in found] == ["full", "tick", "tick", "tick"]
        full = found[0][1]
        told = [full, *(one for _, one in found[1:])]
        assert any(
            one.get("letters", [{}])[:1] == [{**one["letters"][0], "reason": "malformed"}]
            for one in told
            if one.get("letters")
        )
        assert [one["number"] - full["number"] for _, one in found] == [0, 1, 2, 3]
        assert told[-1]["people"][0]["key"] == "p7" and told[-1]["people"][0]["rows"] == 2
        assert len(found[1][1]["point"]) == len(full["about"]["series"])


def test_a_viewer_who_missed_a_look_gets_everything_again() -> None:
    class Stub:
        number = 5

        def full(self) -> bytes:
            return b"full"

        def tick(self) -> bytes:
            return b"tick"

    assert web.next_text(Stub(), 4) == b"tick"  # type: ignore[arg-type]
    assert web.next_text(Stub(), 3) == web.next_text(Stub(), web.NOTHING) == b"full"  # type: ignore[arg-type]


def test_no_more_viewers_than_stated_and_none_of_them_keeps_metrics_from_others(monkeypatch: Any) -> None:
    monkeypatch.setattr(web, "MOST_STREAMS", 3)
    with served(monkeypatch) as (port, _):
        held = []
        for _ in range(3):
            one = socket.create_connection(("127.0.0.1", port), timeout=20)
            one.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert one.recv(12) == b"HTTP/1.1 200"
            held.append(one)
        status, _, text = get(port, "/events")
        assert (status, text) == (503, "3 viewers are connected already\n")
        idle = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(MOST_CONNECTIONS + 5)]
        assert get(port, "/metrics")[0] == 200
        assert held[0].recv(1)  # idle connections end the oldest idle one, never a viewer
        for one in (*held, *idle):
            one.close()


def test_a_viewer_who_takes_nothing_ends(monkeypatch: Any) -> None:
    monkeypatch.setattr(web, "TAKE_WITHIN", 0.2)
    monkeypatch.setattr(web, "SEND_BUFFER", 4096)
    monkeypatch.setattr(Figures, "tick", lambda self: b"event: tick\ndata: %s\n\n" % (b"0" * 100_000))
    with served(monkeypatch) as (port, _), socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", port))
        one.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1.0)
        one.settimeout(20)
        with pytest.raises(ConnectionResetError):
            while one.recv(1 << 16):
                pass
            raise ConnectionResetError  # ended in order: as good
        assert get(port)[0] == 200


def test_asking_before_the_job_runs_or_while_it_stands_still_says_so(monkeypatch: Any) -> None:
    with served() as (port, _):
        status, _, text = get(port, "/api/keys/p7")
        assert status == 503 and json.loads(text) == {"key": "p7", "reason": "the worker has not started yet"}


def test_key_answers_come_from_the_thread_of_the_job() -> None:
    loop, threads = asyncio.new_event_loop(), []
    running = threading.Thread(target=loop.run_forever)
    running.start()

    class Live:
        slot_of: ClassVar = {b"p1": 0}

        def look_up(self, key: bytes) -> Any:
            threads.append(threading.current_thread())
            return (b"data", None) if key != b"p8" else None

    class States:
        def details(self, partition: int, key: bytes, data: bytes, said: Any, written: int) -> Any:
            if key == b"p9":
                raise SnapshotError("snapshot is damaged.")
            return {"partition": partition, "data": data.decode()}

        def likely_partition(self, key: bytes, known: Any, partitions: int) -> int:
            assert known == {3: [b"p1"]} and partitions == 4
            return 2

    asker = Asker(settings_from(JOB | {"broker": {"url": "kafka://127.0.0.1:1"}}), States())

    async def connected() -> None:
        asker.connect(lambda: {3: SimpleNamespace(live=Live(), turns=Turns())}, 4)  # type: ignore[dict-item]

    asyncio.run_coroutine_threadsafe(connected(), loop).result()
    try:
        status, found = asyncio.run(asker.answer("p7"))
        missing, elsewhere = asyncio.run(asker.answer("p8"))
        damaged = asyncio.run(asker.answer("p9"))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        running.join()
        loop.close()
    assert status == 200 and json.loads(found)["states"] == [{"partition": 3, "data": "data"}]
    assert set(threads) == {running}
    assert damaged == (503, b'{"key": "p9", "reason": "its state cannot be read: snapshot is damaged."}')
    told = json.loads(elsewhere)
    assert missing == 404 and (told["partition"], told["partitions"], told["partitions_here"]) == (2, 4, [3])
    assert told["workers"] is None and told["workers_unknown"]  # no broker is there
