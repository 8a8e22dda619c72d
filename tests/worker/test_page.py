"""The page without a browser: who may see it, what it keeps, and that slow and many viewers cost little."""

import asyncio
import http.client
import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from streamjobs.core.live.live_stats import LiveStats
from streamjobs.core.messages import BatchRows, Letter, Report, ShownAlarm
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.settings.load import settings_from
from streamjobs.worker.backpressure import Turns
from streamjobs.worker.health import Health
from streamjobs.worker.health.connection import MOST_CONNECTIONS
from streamjobs.worker.health.server import Server
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.page import Page, feed, looks, people, web
from streamjobs.worker.page.access import Access, is_loopback
from streamjobs.worker.page.ask import MOST_LISTED, Asker
from streamjobs.worker.page.feed import Feed
from streamjobs.worker.page.figures import NEWEST_EVENTS, POINTS, Figures
from streamjobs.worker.page.people import MOST_CLASSES, MOST_PEOPLE, OTHER, People

JOB: dict[str, Any] = {"source": {"topic": "in", "dim": 2}, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}
TOKEN = "0123456789abcdef0123"


def settings(token: str | None = None, **metrics: Any) -> Any:
    environment = {} if token is None else {"STREAMJOBS_METRICS__TOKEN": token}
    return settings_from({**JOB, "metrics": {"port": 0, **metrics}}, environment)


@contextmanager
def served(monkeypatch: Any = None, token: str | None = None, **metrics: Any) -> Iterator[tuple[int, Metrics]]:
    """A page's port, without a job behind it."""
    if monkeypatch is not None:
        monkeypatch.setattr(looks, "EVERY", 0.05)
    chosen = settings(token, **metrics)
    core = SimpleNamespace(job=SimpleNamespace(sinks={"dlq": "in.dlq"}, model="okfeb"))
    page = Page.of(chosen, core, None)  # type: ignore[arg-type]
    health = Health(Metrics("in", "okfeb"))
    server = Server(chosen.metrics, health, None if page is None else page.serve(health))
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
        assert (status, headers["Location"]) == (303, "/") and "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert TOKEN not in cookie
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


def test_what_the_job_leaves_for_the_page_is_bounded() -> None:
    box, many = Feed(), feed.MOST_ROWS + 7
    rows = BatchRows(["k"] * many, np.arange(many) * 1.0, np.zeros(many), list("ab" * many)[:many], None)
    for _ in range(300):
        box.take(
            Report(rows=many, batches=[rows], newest_delay=1.0, alarms=[ShownAlarm("k", 0.0, "d", "loss", 1.0, 0.0, 1.0)])
        )
    taken = box.look(1.0)
    assert sum(len(batch.keys) for batch in taken.batches) == feed.MOST_KEPT and len(taken.alarms) == feed.MOST_EVENTS
    assert {len(batch.keys) for batch in taken.batches} == {len(taken.batches[0].predicted or ())} == {feed.MOST_ROWS}
    assert taken.batches[0].times[-1] == many - 1  # the newest of them
    assert box.rows == many * 300 and box.look(2.0).batches == []


def test_the_rings_of_the_page_are_bounded_and_hold_only_what_json_has() -> None:
    box = Feed()
    figures = Figures(box, Health(Metrics("in", "okfeb")), {"job": "j"})
    for number in range(POINTS + 5):
        keys = [f"key-{number}"]
        rows = BatchRows(keys, np.array([math.inf]), np.array([math.nan]), [f"class-{number}"], [f"label-{number}"])
        alarm = ShownAlarm(
            keys[0], math.nan, "conformal", "ls_error", math.nan, math.inf, -math.inf, [("x", *[math.nan] * 3)]
        )
        box.take(Report(rows=1, batches=[rows], alarms=[alarm], letters=[Letter("k", 0, number, "malformed", "text")]))
        figures.look(float(number))
    full = json.loads(figures.full().partition(b"data: ")[2], parse_constant=pytest.fail)
    assert len(full["points"]) == POINTS and len(full["alarms"]) == len(full["letters"]) == NEWEST_EVENTS
    assert len(full["people"]) <= MOST_PEOPLE and len(full["classes"]) == MOST_CLASSES + 1 and full["classes"][-1] == OTHER
    assert len(full["confusion"]["pairs"]) <= (MOST_CLASSES + 1) ** 2
    assert full["alarms"][0]["value"] is None and full["letters"][0]["offset"] == POINTS + 4


def test_a_key_of_a_megabyte_is_sent_to_viewers_by_its_first_characters() -> None:
    box, key = Feed(), "k" * (1 << 20)
    figures = Figures(box, Health(Metrics("in", "okfeb")), {"job": "j"})
    alarm = ShownAlarm(key, 0.0, "conformal", "ls_error", 1.0, 0.0, 1.0)
    box.take(Report(rows=1, batches=[_rows(key)], alarms=[alarm], letters=[Letter(key, 0, 1, "malformed", "text")]))
    figures.look(0.0)
    full = json.loads(figures.full().partition(b"data: ")[2])
    shown = {one["key"] for name in ("people", "alarms", "letters") for one in full[name]}
    assert len(shown) == 1 and shown.pop() == "k" * 1000 + "... (1,048,576 characters)"


def test_viewers_are_told_for_how_long_no_broker_has_answered() -> None:
    health = Health(Metrics("in", "okfeb"))
    figures = Figures(Feed(), health, {"job": "j"})
    for last, silent in ((0.0, 0), (time.monotonic() - 40.0, 40)):
        health.last_answer = last
        figures.look()
        assert json.loads(figures.full().partition(b"data: ")[2])["totals"]["silent"] == silent


def test_an_alarm_that_ends_says_so_where_it_stands_and_marks_no_row() -> None:
    box = Feed()
    figures = Figures(box, Health(Metrics("in", "okfeb")), {"job": "j"})
    first, second = (
        ShownAlarm("k", time, "column_chart", "columns", math.nan, 1.0, 5.0, [("ax", -3.0, 2.0, 1.0)], name, time - 5.0)
        for time, name in ((100.0, "a1"), (200.0, "b2"))
    )
    over = first._replace(end=160.0, outcome="recovered")
    for number, some in enumerate(([first], [second], [over, over._replace(id="long forgotten")])):
        box.take(Report(rows=1, batches=[_rows("k")], alarms=some))
        figures.look(float(number))
    told = json.loads(figures.full().partition(b"data: ")[2])["alarms"]
    assert [(one["id"], one["time"], one["since"], one["end"], one["outcome"]) for one in told] == [
        ("b2", 200.0, 195.0, None, None),
        ("a1", 100.0, 95.0, 160.0, "recovered"),
    ]
    assert told[0]["columns"] == [["ax", -3.0, 2.0, 1.0]]


def _rows(*keys: str) -> BatchRows:
    return BatchRows(list(keys), np.arange(len(keys)) * 1.0, np.ones(len(keys)), ["a"] * len(keys), ["a"] * len(keys))


def test_keys_keep_their_places_until_they_are_idle_or_others_raise_alarms(monkeypatch: Any) -> None:
    group = People()
    first = [f"key-{number:03}" for number in range(MOST_PEOPLE)]
    group.take([_rows(*first)], (), 1)
    group.take([_rows("late", *first)], (), 2)
    assert list(group.shown) == first
    group.take([_rows("late", "loud")], [("loud", 1.0)], 3)
    assert "loud" in group.shown and "late" not in group.shown and len(group.shown) == MOST_PEOPLE
    assert group.shown["loud"].cells[-1][2] == 1
    assert group.choose("late") and "late" in group.shown  # beside the others
    monkeypatch.setattr(people, "IDLE", -1.0)
    group.take([_rows("new")], (), 4)
    assert "new" in group.shown and "late" in group.shown and len(group.shown) == MOST_PEOPLE + 1
    for number in range(people.MOST_CHOSEN - 1):
        assert group.choose(f"chosen-{number}")
    assert not group.choose("one too many")


def test_labels_by_predictions_count_labelled_rows_alone() -> None:
    group = People()
    rows = BatchRows(["p"] * 4, np.arange(4.0), np.ones(4), ["a", "b", None, "a"], ["a", "a", "a", None])
    group.take([rows], (), 1)
    assert group.unpredicted == 1
    assert dict(group.confusion) == {("a", "a"): 1, ("a", "b"): 1}
    assert (group.shown["p"].labelled, group.shown["p"].right, group.shown["p"].rows) == (2, 1, 4)
    group.take([BatchRows(["p"], np.zeros(1), np.ones(1), [1.5], [2.5])], (), 2)  # a regression's numbers are no classes
    assert sum(group.confusion.values()) == 2 and group.shown["p"].cells[-1][:2] == [-1, -1]


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


class OpenAlarms:
    """States with these open alarms in every partition."""

    def __init__(self) -> None:
        self.alarms: list[ShownAlarm] = []

    def open_alarms(self, live: Any, most: int) -> tuple[int, list[ShownAlarm]]:
        return len({one.key for one in self.alarms}), self.alarms[:most]


def _with_states() -> tuple[Feed, Figures, OpenAlarms]:
    box, states, metrics = Feed(), OpenAlarms(), Metrics("in", "okfeb")
    live = SimpleNamespace(keys=3)
    partition = SimpleNamespace(number=0, committed=0, live=live, stats=LiveStats, worst=lambda most: [])
    metrics.partitions = lambda: [partition]  # type: ignore[method-assign,list-item,return-value]
    health = SimpleNamespace(metrics=metrics, answer=lambda: (200, {}), last_answer=0.0)
    return box, Figures(box, health, {"job": "j"}, states), states  # type: ignore[arg-type]


def _full(figures: Figures) -> Any:
    return json.loads(figures.full().partition(b"data: ")[2])


def test_open_alarms_come_first_and_their_keys_stay_until_they_end_though_no_event_came(monkeypatch: Any) -> None:
    """As after a restart: the states say what is open, and no alarm was raised since."""
    box, figures, states = _with_states()
    old = ShownAlarm("silent", 50.0, "column_chart", "columns", math.nan, 1.0, 5.0, (), "a1", 45.0)
    over = ShownAlarm("p1", 900.0, "column_chart", "columns", 2.0, 1.0, 5.0, (), "b2", 890.0)
    states.alarms = [old]
    many = [f"p{number}" for number in range(MOST_PEOPLE + 5)]
    box.take(Report(rows=99, batches=[_rows(*many)], alarms=[over, over._replace(end=950.0, outcome="recovered")]))
    figures.look(1000.0)
    told = _full(figures)
    assert [(one["id"], one.get("open"), one["at"]) for one in told["alarms"]] == [("a1", True, None), ("b2", None, 1000.0)]
    assert told["totals"]["in_alarm"] == 1
    assert [one["key"] for one in told["people"] if one["alarm"]] == ["silent"]
    monkeypatch.setattr(people, "IDLE", -1.0)
    monkeypatch.setattr(people, "ALARM_HOLDS", -1.0)
    for look in range(MOST_PEOPLE + 5):
        box.take(Report(rows=1, batches=[_rows(f"new-{look}")]))
        figures.look(1001.0 + look)
    assert "silent" in figures.people.shown
    states.alarms = []
    figures.look(2000.0)
    assert _full(figures)["totals"]["in_alarm"] == 0 and not any(one["alarm"] for one in _full(figures)["people"])


def test_more_keys_in_alarm_than_places_leave_none_to_others() -> None:
    group = People()
    group.take([_rows(*(f"key-{number:03}" for number in range(MOST_PEOPLE)))], (), 1)
    opened = {f"loud-{number:03}": None for number in range(MOST_PEOPLE + 3)}
    group.take([_rows("other")], [("other", 0.0)], 2, opened)
    assert list(group.shown) == list(opened)[:MOST_PEOPLE]


def test_viewers_are_told_at_once_that_the_newest_samples_are_late() -> None:
    _, figures, _ = _with_states()
    taken = figures._health.metrics.taken
    for records, late in ((10_000, 0), (150, 0), (150, 150)):
        taken.add(Report(records=records, samples=records, rows=records - late, skipped={"late": late}))
        figures.look()
    told = _full(figures)
    assert told["totals"]["skipped"] == {"late": 150}
    (sentence,) = told["doubts"]
    assert sentence.startswith("100 % of the newest 150 samples are late: older than the newest sample of their key")
    taken.add(Report(records=1000, samples=1000, rows=1000))
    figures.look()
    assert _full(figures)["doubts"] == []


def test_the_keys_that_are_not_shown_are_listed_by_a_part_of_their_name() -> None:
    asker = Asker(settings_from(JOB), None)  # type: ignore[arg-type]
    assert json.loads(asker.listed("", 1000)) == {"keys": 0, "matching": 0, "names": []}
    keys = {b"pump-%03d" % number: number for number in range(300)} | {b"\xff": 300, b"k" * 2000: 301}
    asker._held = lambda: {0: SimpleNamespace(live=SimpleNamespace(slot_of=keys))}  # type: ignore[dict-item,return-value]
    told = json.loads(asker.listed("mp-29", 1000))
    assert told == {"keys": 302, "matching": 10, "names": [f"pump-{number}" for number in range(290, 300)]}
    told = json.loads(asker.listed("", 1000))
    assert told["matching"] == 302 and len(told["names"]) == MOST_LISTED and told["names"][0] == r"\xff"
    assert told["names"][1].endswith("... (2,000 characters)")
