"""A worker's metrics, fed from the core's reports and by the worker's other modules.

How to add a metric: `streamjobs/README.md`.
"""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import prometheus_client
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.samples import Exemplar

from streamjobs import __version__
from streamjobs.core.live.live_stats import LiveStats, together
from streamjobs.core.messages import Report, Worst
from streamjobs.core.unlearned import REASONS as SKIPPED
from streamjobs.core.unlearned import Taken
from streamjobs.errors import REASONS
from streamjobs.worker.metrics.table import METRICS, PREFIX, SCHEMA_ANSWERS, STAGES, Metric
from streamjobs.worker.partition import Partition

if TYPE_CHECKING:
    from streamjobs.schema_registry.lookup import Lookup
    from streamjobs.worker.pace import Pace


class Metrics:
    """The collectors of METRICS on a registry of their own.

    topic: the input topic; model, detector, watches (what is watched for drift), controls (watched next to it), sinks
    and job_name: values of labels.
    Those of the process (`process_*`, `python_gc_*`) are prometheus_client's.
    """

    def __init__(
        self,
        topic: str = "",
        model: str = "",
        detector: str = "",
        sinks: Iterable[str] = (),
        controls: Iterable[str] = (),
        job_name: str = "",
        watches: Iterable[str] = (),
    ) -> None:
        # Otherwise a sixth of all series are times of creation, which the first scrape of a series shows too.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)
        self.last_commit = 0.0  # seconds since 1970, 0: none yet
        self.started = time.time()
        self.remaining = 0  # changelog records still to be read
        self.recovery_seconds: float | None = None  # of the last recovery
        self.taken = Taken()
        self.coverage: Sequence[float] = ()  # of forecasts' intervals
        self.end_of: Callable[[int], int | None] = lambda partition: None  # an input partition's end, set by the app
        self.on_report: Callable[[Report], None] | None = None  # the page's, where there is one
        self.lookup: Lookup | None = None  # of schemas, set by the app
        self._partitions: Mapping[int, Partition] = {}
        self._collectors: dict[str, Any] = {}
        gauges = {metric.name: (PREFIX + metric.name, metric.help) for metric in METRICS}
        for metric in METRICS:
            if metric.name not in KeyGauges.NAMES:
                self._collectors[metric.name] = self._make(metric)
        self.registry.register(KeyGauges(gauges, self.stats))
        self._topic = topic
        self._collectors["build_info"].labels(__version__, job_name).set(1)
        for reason in REASONS:
            self._collectors["records_dead_lettered_total"].labels(reason)
        for reason in SKIPPED:
            self._collectors["samples_skipped_total"].labels(reason)
        for outcome in SCHEMA_ANSWERS:
            self._collectors["schema_registry_requests_total"].labels(outcome)
        for control in controls:
            self._collectors["drift_control_events_total"].labels(control)
        for watch in watches:
            for name in ("alarms_total", "drift_p_values_total", "drift_small_p_values_total"):
                self._collectors[name].labels(watch)
        for sink in sinks:
            self._collectors["records_produced_total"].labels(sink)
        self._stages = {stage: self._collectors["stage_duration_seconds"].labels(stage) for stage in STAGES}
        self._consumed = self._collectors["records_consumed_total"].labels(topic)
        self._bytes = self._collectors["consumed_bytes_total"].labels(topic)
        self._samples = self._collectors["samples_total"].labels(model)
        self._rows = self._collectors["rows_total"].labels(model)
        self._drift = self._collectors["drift_events_total"].labels(detector) if detector else None
        self._wrong = self._collectors["prediction_errors_total"].labels("class")
        for name, value in (
            ("keys", lambda: sum(p.live.keys for p in self.partitions())),
            ("keys_set_aside", self.keys_set_aside),
            ("state_dirty_keys", lambda: sum(len(p.live.dirty) for p in self.partitions())),
            ("uncommitted_seconds", self.uncommitted),
            ("replay_seconds", lambda: max((pace.seconds for pace in self._unwritten()), default=0.0)),
            ("replay_used_ratio", lambda: max((pace.used for pace in self._unwritten()), default=0.0)),
            ("replay_records", lambda: sum(max(0, p.committed - p.replay_from) for p in self.partitions())),
            ("replay_remaining_records", lambda: sum(max(0, p.held - p.next) for p in self.partitions())),
            ("schema_registry_waiting_seconds", self.waiting_for_schemas),
        ):
            self._collectors[name].set_function(value)
        self._collectors["state_bytes"].labels("live").set_function(lambda: sum(p.live.nbytes for p in self.partitions()))

    def _make(self, metric: Metric) -> Any:
        name = PREFIX + metric.name
        if metric.name == "ls_error_ratio":
            histogram = BatchHistogram(name, metric.help, metric.buckets)
            self.registry.register(histogram)
            return histogram
        if metric.kind == "counter":
            return prometheus_client.Counter(name, metric.help, metric.labels, registry=self.registry)
        if metric.kind == "gauge":
            return prometheus_client.Gauge(name, metric.help, metric.labels, registry=self.registry)
        return prometheus_client.Histogram(name, metric.help, metric.labels, registry=self.registry, buckets=metric.buckets)

    def expect_forecasts(self, columns: Sequence[str], ahead: Sequence[int], coverage: Sequence[float]) -> None:
        """Of a job with forecasts: their columns, rows ahead and coverage. The counters begin at 0."""
        self.coverage = coverage
        nothing = [0.0] * (4 + len(coverage))
        self._count_forecasts({f"{column} {rows}": nothing for column in columns for rows in ahead})

    def _count_forecasts(self, forecasts: Mapping[str, Sequence[float]]) -> None:
        names = ("forecasts_judged_total", "forecast_error_total", "forecast_naive_error_total", "forecast_intervals_total")
        for place, figures in forecasts.items():
            column, _, rows = place.rpartition(" ")
            for name, figure in zip(names, figures, strict=False):
                self._collectors[name].labels(column, rows).inc(figure)
            for share, right in zip(self.coverage, figures[len(names) :], strict=True):
                self._collectors["forecast_intervals_right_total"].labels(column, rows, f"{share:g}").inc(right)

    def watch(self, *, ready: Callable[[], bool], directory: Path | None) -> None:
        """Read these at each scrape. directory: [state] directory; None: states are in memory."""
        self._collectors["ready"].set_function(lambda: float(ready()))
        self._collectors["state_disk_free_bytes"].set_function(lambda: disk_bytes(directory)[0])
        self._collectors["state_disk_size_bytes"].set_function(lambda: disk_bytes(directory)[1])

    def note_caught_up(self) -> None:
        """Note, at each call, that no record waits. The waiting time of later records counts from here.

        It does not count from the last commit, which can be hours ago if no record has come since.
        """
        now = time.monotonic()
        for one in self.partitions():
            if not self.lag_of(one):
                one.caught_up_at = now

    def uncommitted(self) -> float:
        """Longest time, in seconds, for which a partition's waiting records have had no commit; 0 while none wait."""
        now = time.monotonic()
        return max([0.0, *(now - one.waiting_since for one in self.partitions() if self.lag_of(one))])

    def waiting_for_schemas(self) -> float:
        """Seconds for which records have waited for the schema registry; 0 while none wait."""
        since = self.lookup.waiting_since if self.lookup is not None else None
        return time.monotonic() - since if since is not None else 0.0

    def count(self, name: str, number: int, *labels: str) -> None:
        """Raise a counter, by its name in METRICS."""
        collector = self._collectors[name]
        (collector.labels(*labels) if labels else collector).inc(number)

    def partitions(self) -> list[Partition]:
        return list(self._partitions.values())

    def _unwritten(self) -> "list[Pace]":
        """Of partitions with states that lack records: a complete one does not age while others work."""
        return [one.pace for one in self.partitions() if one.pace is not None and one.replay_from < one.next]

    def keys_set_aside(self) -> int:
        return sum(len(partition.live.aside) for partition in self.partitions())

    def stats(self) -> LiveStats:
        """Statistics of the live keys of all partitions."""
        return together([partition.stats() for partition in self.partitions()])

    def count_advance(self, report: Report, seconds: float) -> None:
        collectors = self._collectors
        self.taken.add(report)
        if self.on_report is not None:
            self.on_report(report)
        self._stages["advance"].observe(seconds)
        self._consumed.inc(report.records)
        self._bytes.inc(report.bytes)
        self._samples.inc(report.samples)
        self._rows.inc(report.rows)
        for name, count in {
            "records_redelivered_total": report.redelivered,
            "keys_created_total": report.keys_created,
            "state_reads_total": report.states_read,
            "keys_evicted_total": report.keys_evicted,
            "keys_expired_total": report.keys_expired,
            "rows_unknown_total": report.unknown,
            "numbers_filled_total": report.filled,
            "targets_clipped_total": report.targets_clipped,
            "labels_total": report.labels,
        }.items():
            if count:
                collectors[name].inc(count)
        for name, counts in {
            "records_dead_lettered_total": report.dead_lettered,
            "samples_skipped_total": report.skipped,
            "sensor_samples_total": report.sensor_samples,
            "sensor_gaps_total": report.sensor_gaps,
            "alarms_total": report.watch_events,
            "drift_control_events_total": report.control_events,
        }.items():
            for label, count in counts.items():
                collectors[name].labels(label).inc(count)
        if report.labels:
            self._wrong.inc(report.wrong)
            if math.isfinite(report.label_delay):
                collectors["label_delay_seconds"].observe(max(0.0, report.label_delay))
        if report.drift_events and self._drift is not None:
            self._drift.inc(report.drift_events)
        for watch, (judged, small) in report.p_values.items():
            collectors["drift_p_values_total"].labels(watch).inc(judged)
            collectors["drift_small_p_values_total"].labels(watch).inc(small)
        if report.forecasts:
            self._count_forecasts(report.forecasts)
        if report.ls_errors:
            collectors["ls_error_ratio"].observe(report.ls_errors, report.worst)
        if report.newest_event > 0:
            collectors["last_record_timestamp_seconds"].set(report.newest_event)
        if math.isfinite(report.newest_delay):
            collectors["event_delay_seconds"].observe(max(0.0, report.newest_delay))
            collectors["clock_skew_seconds"].set(max(0.0, -report.newest_delay))
            recorded = report.newest_event + report.newest_delay
            collectors["processing_delay_seconds"].observe(max(0.0, time.time() - recorded))

    def count_outputs(self, topic: str, records: int) -> None:
        self._collectors["records_produced_total"].labels(topic).inc(records)

    def count_replayed(self, records: int, seconds: float) -> None:
        """Count records that were applied again, with outputs held back."""
        self._collectors["replayed_records_total"].inc(records)
        self._stages["advance"].observe(seconds)

    def observe_step(self, stage: str, seconds: float) -> None:
        self._stages[stage].observe(seconds)
        if stage == "commit":
            self._collectors["commit_duration_seconds"].observe(seconds)

    def count_snapshots(self, snapshots: int, size: int) -> None:
        self._collectors["changelog_records_total"].labels("state").inc(snapshots)
        self._collectors["changelog_bytes_total"].labels("state").inc(size)

    def record_commit(self, now: float) -> None:
        self.last_commit = now
        self._collectors["commits_total"].inc()
        self._collectors["last_commit_timestamp_seconds"].set(now)

    def set_partitions(self, partitions: Mapping[int, Partition]) -> None:
        """Take the partitions this worker has from now on."""
        lag = self._collectors["consumer_lag_records"]
        for number in set(self._partitions) - set(partitions):
            lag.remove(self._topic, str(number))
        for number, partition in partitions.items():
            lag.labels(self._topic, str(number)).set_function(lambda partition=partition: self.lag_of(partition))
        if partitions:
            self._collectors["rebalances_total"].inc()
        self._partitions = dict(partitions)
        self._collectors["assigned_partitions"].set(len(partitions))

    def lag_of(self, partition: Partition) -> int:
        """Records after the newest one with safe outputs, up to the end that the last fetch reported."""
        end = self.end_of(partition.number)
        return max(0, end - partition.committed) if end is not None else 0

    def set_recovery(self, remaining: int, seconds: float | None = None) -> None:
        self.remaining = remaining
        self._collectors["recovery_remaining_records"].set(remaining)
        if seconds is not None:
            self.recovery_seconds = seconds
            self._collectors["recovery_duration_seconds"].set(seconds)


def disk_bytes(directory: Path | None) -> tuple[float, float]:
    """Free bytes and size of the disk that has the directory, or will have it; NaN without one."""
    for there in (directory, *directory.parents) if directory is not None else ():
        with suppress(OSError):  # not there before the first start
            disk = os.statvfs(there)
            return float(disk.f_bavail * disk.f_frsize), float(disk.f_blocks * disk.f_frsize)
    return math.nan, math.nan


class BatchHistogram:
    """A histogram that takes a batch of values at once: one `observe` per value costs more than computing the value.

    Batches are collected until they have TOGETHER values, or until a scrape, which may run in another thread.
    """

    TOGETHER = 2_000

    def __init__(self, name: str, text: str, buckets: Sequence[float]) -> None:
        self.name, self.text = name, text
        self._edges = np.asarray(buckets)
        self._counts = np.zeros(len(buckets) + 1, np.int64)
        self._sum = 0.0
        self._exemplars: list[Exemplar | None] = [None] * (len(buckets) + 1)
        self._waiting = deque[tuple[Sequence["np.ndarray[Any, Any]"], Worst | None]]()
        self._expected = self.TOGETHER  # values until the collected batches are counted
        self._counting = threading.Lock()

    def observe(self, batches: "Sequence[np.ndarray[Any, Any]]", worst: Worst | None = None) -> None:
        """batches: arrays of values; worst: the largest value, the exemplar of its bucket until the next one there."""
        self._waiting.append((batches, worst))
        self._expected -= sum(map(len, batches))
        if self._expected <= 0:
            self._count()

    def _count(self) -> None:
        with self._counting:
            waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
            self._expected = self.TOGETHER
            arrays = [values for batches, _ in waiting for values in batches]
            if not arrays:
                return
            values = np.concatenate(arrays)
            self._counts += np.bincount(np.searchsorted(self._edges, values), minlength=len(self._counts))
            self._sum += float(np.sum(values))
            for worst in [worst for _, worst in waiting if worst is not None]:
                at = int(np.searchsorted(self._edges, worst.ls_error))
                self._exemplars[at] = Exemplar({"key_hash": worst.key_hash}, worst.ls_error, worst.time)

    def collect(self) -> list[HistogramMetricFamily]:
        self._count()
        cumulated = np.cumsum(self._counts).tolist()
        names = [repr(edge) for edge in self._edges.tolist()] + ["+Inf"]
        buckets = [
            (name, count) if exemplar is None else (name, count, exemplar)
            for name, count, exemplar in zip(names, cumulated, self._exemplars, strict=True)
        ]
        return [HistogramMetricFamily(self.name, self.text, buckets, self._sum)]


class KeyGauges:
    """Gauges over the live keys, all computed from one snapshot of their statistics at each scrape."""

    NAMES: ClassVar = (
        *("worst_ls_error_ratio", "keys_active", "keys_in_drift", "model_budget_used_ratio", "model_rank"),
        *("keys_in_alarm", "keys_warming_up"),
    )

    def __init__(self, gauges: Mapping[str, tuple[str, str]], stats: Callable[[], LiveStats]) -> None:
        """gauges: name with prefix, and help, of each of NAMES; stats: returns the present statistics."""
        self._gauges, self._stats = gauges, stats

    def describe(self) -> list[GaugeMetricFamily]:
        return [GaugeMetricFamily(*self._gauges[name]) for name in self.NAMES]

    def collect(self) -> list[GaugeMetricFamily]:
        now = self._stats()
        worst = GaugeMetricFamily(*self._gauges["worst_ls_error_ratio"], labels=("rank",))
        for rank, error in enumerate(now.worst, 1):
            worst.add_metric([str(rank)], error)
        values = (now.active, now.drifting, now.budget_used, now.rank, now.in_alarm, now.warming_up)
        plain = zip(self.NAMES[1:], values, strict=True)
        return [worst, *(GaugeMetricFamily(*self._gauges[name], value=value) for name, value in plain)]
