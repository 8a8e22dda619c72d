"""/metrics: every metric is there under its name, and what moves it."""

import asyncio
import math
import re
import shutil
import time

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from streamjobs import __version__
from streamjobs.core.live.live import LiveStats
from streamjobs.core.messages import Report, Worst
from streamjobs.errors import REASONS
from streamjobs.worker.health import Health
from streamjobs.worker.idle_keys import RECENT_SECONDS, RecentBatches
from streamjobs.worker.logs import CacheMisses
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.metrics.table import METRICS, PREFIX, RATIOS
from tests.worker.fake_core import HashJob, HashLive
from tests.worker.fakes import Worker, get


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
    health.metrics.count_advance(Report(records=1, ls_errors=[np.array([0.1])]), 0.001)
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


@pytest.mark.parametrize("name", ["event_delay", "processing_delay"])
def test_delays_are_distinguished_from_5_ms_to_a_day(name):
    collected = Metrics("in").registry.collect()
    series = [sample for family in collected for sample in family.samples if sample.name == f"{PREFIX}{name}_seconds_bucket"]
    edges = [float(sample.labels["le"]) for sample in series]
    assert (edges[0], edges[-2], edges[-1]) == (0.005, 86400.0, math.inf)
    assert edges == sorted(edges) and len(edges) > 15


def test_the_name_of_the_job_is_reported_once():
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
    report.ls_errors = [np.array([RATIOS[4], 1e9]), np.array([0.0])]
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
    report = Report(
        drift_events=2,
        control_events={"last_points": 3},
        watch_events={"loss": 2},
        keys_evicted=4,
        labels=1,
        label_delay=20.5,
    )
    report.newest_event, report.newest_delay = 100.0, -7.5  # a device's clock is 7.5 s fast
    metrics.count_advance(report, 0.001)
    assert value(PREFIX + "drift_events_total", {"detector": "page_hinkley"}) == 2
    assert value(PREFIX + "drift_control_events_total", {"control": "last_points"}) == 3
    assert value(PREFIX + "alarms_total", {"watch": "loss"}) == 2
    assert value(PREFIX + "drift_control_events_total", {"control": "running_mean"}) == 0
    assert value(PREFIX + "keys_evicted_total") == 4
    assert (value(PREFIX + "label_delay_seconds_count"), value(PREFIX + "label_delay_seconds_sum")) == (1, 20.5)
    assert value(PREFIX + "clock_skew_seconds") == 7.5 and value(PREFIX + "event_delay_seconds_sum") == 0
    report.newest_delay, report.labels, report.label_delay = 3.0, 0, float("nan")
    metrics.count_advance(report, 0.001)
    assert value(PREFIX + "clock_skew_seconds") == 0 and value(PREFIX + "event_delay_seconds_sum") == 3.0
    assert value(PREFIX + "label_delay_seconds_count") == 1


def test_forecasts_are_counted_by_column_and_rows_ahead_from_0_on():
    metrics = Metrics("in")
    value = metrics.registry.get_sample_value
    metrics.expect_forecasts(["air temp"], (1, 12), (0.8, 0.95))
    places = {"column": "air temp", "rows": "1"}
    assert value(PREFIX + "forecasts_judged_total", {"column": "air temp", "rows": "12"}) == 0
    assert value(PREFIX + "forecast_intervals_right_total", {**places, "coverage": "0.95"}) == 0
    for _ in range(2):
        metrics.count_advance(Report(forecasts={"air temp 1": [10.0, 2.5, 5.0, 8.0, 6.0, 7.0]}), 0.001)
    names = ("forecasts_judged", "forecast_error", "forecast_naive_error", "forecast_intervals")
    assert [value(f"{PREFIX}{name}_total", places) for name in names] == [20, 5, 10, 16]
    right = [value(PREFIX + "forecast_intervals_right_total", {**places, "coverage": share}) for share in ("0.8", "0.95")]
    assert right == [12, 14] and value(PREFIX + "forecasts_judged_total", {"column": "air temp", "rows": "12"}) == 0


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


def test_the_partition_that_waits_longest_for_its_commit_is_reported():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0, 1)
        metrics, now = delivery.metrics, time.monotonic()
        for one in metrics.partitions():
            one.committed_at = one.caught_up_at = now - (20.0 if one.number else 100.0)
        waits = []
        for ends in ({0: 0, 1: 0}, {0: 0, 1: 9}, {0: 9, 1: 9}):
            metrics.end_of = ends.get
            waits.append(metrics.registry.get_sample_value(PREFIX + "uncommitted_seconds"))
        return waits

    none, second, both = asyncio.run(body())
    assert none == 0 and 20 <= second < 100 <= both < 120


def test_exemplars_show_the_hash_of_a_key_to_those_who_ask_for_openmetrics(served):
    health, port = served
    health.metrics.count_advance(
        Report(ls_errors=[np.array([0.01, 0.7])], worst=Worst(0.7, "00112233aabbccdd", 1700000000.0)), 0.001
    )
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
            self.pace, self.next, self.held, self.committed, self.replay_from = None, 0, 0, 0, 0

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


def test_keys_that_do_not_fit_the_cache_are_reported_once_a_minute():
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
