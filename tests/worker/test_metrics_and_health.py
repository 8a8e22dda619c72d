"""/metrics and /health: what they say, and that nobody else listens."""

import asyncio
import json
import math
import re
import shutil
import socket
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from streamjobs import __version__
from streamjobs.core.messages import Report, Worst
from streamjobs.core.state.live import LiveStats
from streamjobs.errors import REASONS, SetupError
from streamjobs.settings.sections import MetricsSection
from streamjobs.worker import health as health_module
from streamjobs.worker.health import STALLED, Health, Server
from streamjobs.worker.idle_keys import RECENT_SECONDS, RecentBatches
from streamjobs.worker.logs import CacheMisses
from streamjobs.worker.metrics import METRICS, PREFIX, RATIOS, Metrics
from tests.worker.fake_core import HashJob, HashLive
from tests.worker.fakes import Worker, stream


def get(port, path, headers=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def served():
    health = Health(Metrics("in", "okfeb", "page_hinkley", ["in.features"]))
    server = Server(MetricsSection(port=0), health)
    yield health, server.start()
    server.stop()


def test_every_metric_is_served_under_its_name(served):
    _, port = served
    status, text = get(port, "/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert status == 200
    for metric in METRICS:
        name = (PREFIX + metric.name).removesuffix("_total")
        assert name in families, metric.name
        assert families[name].type == metric.kind
    assert all(name.startswith((PREFIX, "process_", "python_gc_")) for name in families)
    assert {"process_resident_memory_bytes", "process_open_fds", "python_gc_collections"} <= families.keys()


def test_no_series_tells_again_when_it_was_created(served):
    health, port = served
    health.metrics.count_advance(Report(records=1, ls_errors=[0.1]), 0.001)
    for accept in ("text/plain", "application/openmetrics-text; version=1.0.0"):
        text = get(port, "/metrics", {"Accept": accept})[1]
        series = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
        assert PREFIX + "records_consumed_total" in series
        assert not [name for name in series if name.endswith("_created")]


def test_every_help_text_is_a_sentence(served):
    _, port = served
    for family in text_string_to_metric_families(get(port, "/metrics")[1]):
        if family.name.startswith(PREFIX):
            assert re.fullmatch(r"[A-Z0-9].*\.", family.documentation), family.name


def test_the_name_of_the_job_is_told_once():
    metrics = Metrics("in", "okfeb", job_name="steps")
    assert metrics.registry.get_sample_value(PREFIX + "build_info", {"version": __version__, "job_name": "steps"}) == 1


def test_every_reason_of_a_dead_letter_has_its_counter_from_the_start(served):
    health, _ = served
    for reason in REASONS:
        value = health.metrics.registry.get_sample_value(PREFIX + "records_dead_lettered_total", {"reason": reason})
        assert value == 0


def test_a_report_is_counted():
    metrics = Metrics("in", "okfeb")
    report = Report(records=3, bytes=90, samples=2, rows=2, redelivered=1, labels=2, wrong=1, keys_created=1)
    report.dead_lettered["malformed"] = 1
    report.ls_errors = [RATIOS[4], 1e9, 0.0]
    metrics.count_advance(report, 0.001)
    metrics.count_advance(report, 0.001)
    value = metrics.registry.get_sample_value
    assert value(PREFIX + "records_consumed_total", {"topic": "in"}) == 6
    assert value(PREFIX + "samples_total", {"model": "okfeb"}) == 4
    assert value(PREFIX + "records_dead_lettered_total", {"reason": "malformed"}) == 2
    assert value(PREFIX + "prediction_errors_total", {"kind": "class"}) == 2
    assert value(PREFIX + "ls_error_ratio_count") == 6
    assert value(PREFIX + "ls_error_ratio_bucket", {"le": repr(RATIOS[3])}) == 2
    assert value(PREFIX + "ls_error_ratio_bucket", {"le": repr(RATIOS[4])}) == 4
    assert value(PREFIX + "ls_error_ratio_bucket", {"le": "+Inf"}) == 6


def test_what_a_report_says_of_drift_labels_and_clocks_moves_its_metrics():
    metrics = Metrics("in", "okfeb", "page_hinkley", controls=["last_points", "running_mean"])
    value = metrics.registry.get_sample_value
    assert value(PREFIX + "drift_control_events_total", {"control": "running_mean"}) == 0
    report = Report(drift_events=2, control_events={"last_points": 3}, keys_evicted=4, labels=1, label_delay=20.5)
    report.newest_event, report.newest_delay = 100.0, -7.5  # a device's clock is 7.5 s fast
    metrics.count_advance(report, 0.001)
    assert value(PREFIX + "drift_events_total", {"detector": "page_hinkley"}) == 2
    assert value(PREFIX + "drift_control_events_total", {"control": "last_points"}) == 3
    assert value(PREFIX + "drift_control_events_total", {"control": "running_mean"}) == 0
    assert value(PREFIX + "keys_evicted_total") == 4
    assert (value(PREFIX + "label_delay_seconds_count"), value(PREFIX + "label_delay_seconds_sum")) == (1, 20.5)
    assert value(PREFIX + "clock_skew_seconds") == 7.5 and value(PREFIX + "event_delay_seconds_sum") == 0
    report.newest_delay, report.labels, report.label_delay = 3.0, 0, float("nan")
    metrics.count_advance(report, 0.001)
    assert value(PREFIX + "clock_skew_seconds") == 0 and value(PREFIX + "event_delay_seconds_sum") == 3.0
    assert value(PREFIX + "label_delay_seconds_count") == 1


def test_a_batch_is_as_late_as_its_record_time_says(monkeypatch):
    metrics = Metrics("in", "okfeb")
    value = metrics.registry.get_sample_value
    monkeypatch.setattr(time, "time", lambda: 1130.0)
    report = Report(newest_event=1000.0, newest_delay=100.0)  # measured at 1000, recorded at 1100, applied at 1130
    metrics.count_advance(report, 0.001)
    assert value(PREFIX + "event_delay_seconds_sum") == 100.0
    assert value(PREFIX + "processing_delay_seconds_sum") == 30.0
    assert value(PREFIX + "processing_delay_seconds_bucket", {"le": "30.0"}) == 1
    report.newest_delay = 200.0  # a broker whose clock is fast
    metrics.count_advance(report, 0.001)
    assert value(PREFIX + "processing_delay_seconds_sum") == 30.0


def test_ready_is_what_the_page_answers_and_the_disk_is_that_of_the_states(tmp_path):
    metrics = Metrics("in")
    health, value = Health(metrics), metrics.registry.get_sample_value
    metrics.watch(ready=lambda: health.ready()[0] == 200, directory=tmp_path / "not" / "yet")
    assert value(PREFIX + "ready") == 0
    health.state = "running"
    assert value(PREFIX + "ready") == 1
    disk = shutil.disk_usage(tmp_path)
    assert value(PREFIX + "state_disk_size_bytes") == disk.total
    assert 0 < value(PREFIX + "state_disk_free_bytes") <= disk.total
    metrics.watch(ready=lambda: False, directory=None)
    assert math.isnan(value(PREFIX + "state_disk_size_bytes")) and math.isnan(value(PREFIX + "state_disk_free_bytes"))


def test_the_partition_that_waits_longest_for_its_commit_is_told():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0, 1)
        metrics, now = delivery.metrics, time.monotonic()
        for one in metrics.partitions():
            one.committed_at = now - (20.0 if one.number else 100.0)
        waits = []
        for ends in ({0: 0, 1: 0}, {0: 0, 1: 9}, {0: 9, 1: 9}):
            metrics.end_of = ends.get
            waits.append(metrics.registry.get_sample_value(PREFIX + "uncommitted_seconds"))
        return waits

    none, second, both = asyncio.run(body())
    assert none == 0 and 20 <= second < 100 <= both < 120


def test_exemplars_show_the_hash_of_a_key_to_those_who_ask_for_openmetrics(served):
    health, port = served
    health.metrics.count_advance(Report(ls_errors=[0.01, 0.7], worst=Worst(0.7, "00112233aabbccdd", 1700000000.0)), 0.001)
    assert "aabbccdd" not in get(port, "/metrics")[1]
    _, text = get(port, "/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})
    (family,) = [one for one in openmetrics(text) if one.name == PREFIX + "ls_error_ratio"]
    (marked,) = [sample for sample in family.samples if sample.exemplar]
    assert marked.exemplar.labels == {"key_hash": "00112233aabbccdd"}
    assert (marked.exemplar.value, float(marked.exemplar.timestamp)) == (0.7, 1700000000.0)
    assert float(marked.labels["le"]) == min(edge for edge in RATIOS if edge >= 0.7)


def test_gauges_of_the_keys_say_how_they_stand_at_the_scrape():
    class One:
        def __init__(self, stats):
            self.live, self.stats, self.number = HashLive(HashJob({}), {}.get), lambda: stats, 0

    metrics = Metrics("in", "okfeb")
    value = metrics.registry.get_sample_value
    assert value(PREFIX + "keys_active") == 0 and math.isnan(value(PREFIX + "model_rank"))
    first = LiveStats(active=3, drifting=1, worst=(0.9, 0.2), budget_used=1.0, rank=10.0, keys=3)
    second = LiveStats(active=1, drifting=1, worst=(0.5,), budget_used=0.6, rank=6.0, keys=1)
    metrics._partitions = {0: One(first), 1: One(second), 2: One(LiveStats())}
    assert (value(PREFIX + "keys_active"), value(PREFIX + "keys_in_drift")) == (4, 2)
    assert [value(PREFIX + "worst_ls_error_ratio", {"rank": rank}) for rank in "1234"] == [0.9, 0.5, 0.2, None]
    assert value(PREFIX + "model_budget_used_ratio") == pytest.approx(0.9)
    assert value(PREFIX + "model_rank") == pytest.approx(9.0)


def test_batches_count_as_recent_for_five_minutes():
    recent = RecentBatches()
    assert recent.count_before(50.0) == 0
    for second in range(0, 1000, 10):
        recent.add(float(second), second)
    assert recent.count_before(995.0) == 690  # the last mark that is five minutes old
    assert recent.count_before(990.0 + RECENT_SECONDS) == 990  # nothing since
    assert len(recent._marks) <= RECENT_SECONDS / 10 + 2
    fresh = RecentBatches()
    fresh.add(10.0, 5)
    assert fresh.count_before(20.0) == 0


def test_the_states_of_a_worker_answer_with_the_right_status(served):
    health, port = served
    for state, expected in (("recovering", 200), ("running", 200), ("stopping", 503), ("failed", 503)):
        health.state = state
        status, body = get(port, "/health")
        assert (status, json.loads(body)["state"]) == (expected, state)


def test_a_worker_is_live_from_its_start_and_ready_while_it_runs(served):
    health, port = served
    for state, remaining, ready, reason in (
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
        metrics.started -= STALLED + 1
        behind = health.answer()
        worker.fetch(0, stream(50))
        await worker.settle()
        await delivery.held[0].checkpoints.take()
        return behind, health.answer()

    (status, behind), (later, fine) = asyncio.run(body())
    assert status == 503 and behind["lag"] == {"0": 50} and behind["partitions"] == [0]
    assert later == 200 and fine["lag"] == {"0": 0} and fine["last_commit_age_seconds"] < 60


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
        == f"records of partition 0 are waiting, and no offset of theirs was committed for {STALLED + 1:.0f} s"
    )


def test_keys_that_do_not_fit_the_cache_are_told_once_a_minute():
    def told(records, states_read, keys_evicted):
        misses = CacheMisses(256 << 20)
        with capture_logs() as logs:
            for second in range(0, 130, 10):
                report = Report(records=records, states_read=states_read, keys_evicted=keys_evicted)
                misses.count(report, 1000.0 + second)
        return logs

    first, second = told(1000, 200, 200)
    assert (first["states_read"], first["records"], first["cache"]) == (1400, 7000, "256MB")
    assert second["records"] == 6000
    assert not told(1000, 200, 0)  # keys that come for the first time after a start
    assert not told(1000, 50, 50)
    assert not told(10, 10, 10)


def test_the_lag_of_a_partition_that_went_elsewhere_is_not_shown():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0, 1)
        value = delivery.metrics.registry.get_sample_value
        name, labels = PREFIX + "consumer_lag_records", {"topic": "in", "partition": "0"}
        before = value(name, labels)
        delivery.raise_barrier()
        await delivery.revoke("rebalance")
        await worker.begin(1)
        return before, value(name, labels), value(name, {"topic": "in", "partition": "1"})

    assert asyncio.run(body()) == (0, None, 0)


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
        (b"GET /metrics", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000, b"431 Request Header Fields Too Large"),
    ],
)
def test_a_request_gets_its_status_whatever_it_is(served, request_line, status):
    _, port = served
    assert answer_to(port, request_line + b"\r\n\r\n").startswith(b"HTTP/1.1 " + status)


def test_a_head_request_gets_the_length_and_no_body(served):
    _, port = served
    head, _, body = answer_to(port, b"HEAD /health HTTP/1.1\nHost: x\n\n").partition(b"\r\n\r\n")
    assert body == b"" and b"Content-Length: " in head and b"Content-Length: 0" not in head


def test_a_connection_that_does_not_finish_its_header_ends(served, monkeypatch):
    _, port = served
    monkeypatch.setattr(health_module, "HEADER_WITHIN", 0.2)
    assert answer_to(port, b"GET /metrics HT") == b""


def test_the_oldest_of_too_many_connections_ends(served, monkeypatch):
    _, port = served
    monkeypatch.setattr(health_module, "MOST_CONNECTIONS", 2)
    connections = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(3)]
    assert connections[0].recv(1) == b""
    for one in connections[1:]:
        one.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert one.recv(12) == b"HTTP/1.1 200"
    for one in connections:
        one.close()


def test_an_error_in_a_page_is_an_answer_and_the_next_request_is_served(served, monkeypatch):
    health, port = served
    with monkeypatch.context() as patched:
        patched.setattr(health, "answer", lambda: 1 / 0)
        assert get(port, "/health")[0] == 500
    assert get(port, "/health")[0] == 200
