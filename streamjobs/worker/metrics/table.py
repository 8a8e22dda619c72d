"""Every metric of a worker: its name, kind, help, labels and buckets. `worker.metrics` says how to add one."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

PREFIX = "streamjobs_"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DELAYS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21600.0, 86400.0)
RATIOS = tuple(float(f"{10 ** (step / 4):.3g}") for step in range(-24, 9))  # four a decade, 1e-6 to 100
SCHEMA_ANSWERS = ("found", "unusable", "not_found", "failed")
STAGES = ("advance", "outputs", "changelog", "offsets", "store", "commit")


class Metric(NamedTuple):
    """A line of METRICS."""

    name: str  # without the prefix
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


# A metric a line: kind, name, (labels), buckets of a histogram: help. An indented line continues the one before it.
_TABLE = """\
gauge build_info (version, job_name): 1, with the version and the job's name ([job] name) as labels.
counter records_consumed_total (topic): Records taken from the input.
counter consumed_bytes_total (topic): Bytes of the values of records taken from the input.
counter records_redelivered_total: Records skipped because their key had applied them already.
counter samples_total (model): Samples taken from records; a frame holds many.
counter rows_total (model): Rows (windows, or samples) that the learners advanced by.
counter samples_skipped_total (reason): Samples that were not learned.
counter records_dead_lettered_total (reason): Records that could not be used and went to the dead-letter topic.
counter records_produced_total (topic): Outputs handed to the broker.
histogram stage_duration_seconds (stage) SECONDS: Duration of one call of advance, or of a step of a checkpoint.
histogram event_delay_seconds DELAYS: Time from the event time of a batch's newest sample to its record time.
histogram processing_delay_seconds DELAYS: Time from the record time of a batch's newest row until the worker had applied the
    batch.
gauge clock_skew_seconds: How far a batch's newest event time lies ahead of its record time; 0 means no clock is fast.
histogram ls_error_ratio RATIOS: LS error of a row; exemplars have a hash of the key.
gauge worst_ls_error_ratio (rank): Largest newest LS errors of active keys, rank 1 to 10.
counter drift_events_total (detector): Alarms of the drift detector.
counter drift_control_events_total (control): Alarms of the same detector on its controls, which are simple learners for
    comparison.
counter alarms_total (watch): Alarms that were raised, by what is watched.
counter drift_p_values_total (watch): P-values of rows without an open alarm, from detectors that keep to a number of false
    alarms.
counter drift_small_p_values_total (watch): P-values below 0.01, of those that drift_p_values_total counts: about 1 % while
    nothing changes.
counter forecasts_judged_total (column, rows): Forecasts that are judged: their value has come.
counter forecast_error_total (column, rows): Sum of |forecast - value| of these forecasts, in units of the column.
counter forecast_naive_error_total (column, rows): The same sum of the naive forecast, that nothing changes.
counter forecast_intervals_total (column, rows): Intervals of these forecasts that are judged.
counter forecast_intervals_right_total (column, rows, coverage): Those that the value lies in, by [forecast] coverage.
gauge keys: Keys with a live state in this worker.
gauge keys_set_aside: Keys with a state that cannot be read or written: their records become dead letters.
gauge keys_active: Live keys with a record in the last 5 minutes.
gauge keys_in_drift: Active keys with an open alarm; without [drift] false_alarms those with an alarm in the last 5 minutes.
gauge keys_in_alarm: Keys with an open alarm.
gauge keys_warming_up: Active keys with too few rows yet for any alarm.
counter keys_created_total: Keys that started in this worker.
counter state_reads_total: States read from the local store because their keys were not among the live states.
counter keys_evicted_total: Keys that left the live states to make room, until their next record.
counter keys_expired_total: Keys removed because no record arrived for [state] ttl.
gauge model_budget_used_ratio: Stored samples divided by their limit, mean of the live keys; NaN if the model stores no
    samples.
gauge model_rank: Features in use, mean of the newest rows; NaN if the model has no features.
counter labels_total: Rows with a label.
histogram label_delay_seconds DELAYS: Time from the event time of a batch's newest labelled row to its label's record time.
counter prediction_errors_total (kind): Labelled rows that were predicted wrong.
counter rows_unknown_total: Rows of an unknown class: see [head] reject.
counter numbers_filled_total: Missing numbers that [source] missing filled.
counter sensor_samples_total (sensor): Samples taken, by the sensors of [source.sensors].
counter sensor_gaps_total (sensor): How often rows were left out because a sensor had no samples; see [source.sensors].
counter targets_clipped_total: Labels that [head] clip_target clipped before they were learned.
gauge consumer_lag_records (topic, partition): Records between the committed offset and the end of the partition.
gauge state_bytes (store): Bytes of live states in memory.
gauge state_dirty_keys: Keys changed since their last checkpoint.
counter changelog_bytes_total (store): Bytes of the snapshots written.
counter changelog_records_total (store): Snapshots written.
gauge recovery_remaining_records: Changelog records still to be read before the worker begins.
gauge recovery_duration_seconds: Duration of the last recovery.
gauge replay_seconds: Processor time that a crash now would cost in applying records again; see [state] replay.
gauge replay_used_ratio: The part of the bounds of [state] replay that is used up.
gauge replay_records: Records with outputs that some state in the changelog has not learned yet.
gauge replay_remaining_records: Records still to be applied again after a takeover.
counter replayed_records_total: Records that were applied again, with outputs held back.
counter replay_lost_records_total: Records with outputs that the broker deleted before all states had learned them.
counter rebalances_total: Assignments of partitions to this worker.
gauge assigned_partitions: Input partitions of this worker.
counter commits_total: Checkpoints with a committed input offset.
histogram commit_duration_seconds SECONDS: Duration of committing an input offset.
gauge last_commit_timestamp_seconds: Time of the last commit, in seconds since 1970.
gauge last_record_timestamp_seconds: Event time of the newest row, in seconds since 1970.
counter schema_registry_requests_total (outcome): Answers of the schema registry: found, unusable (a schema of another type,
    or damaged), not_found, failed (no answer, or an invalid one).
gauge schema_registry_waiting_seconds: Time for which records have waited for a schema that the registry does not return; 0
    while no records wait.
gauge uncommitted_seconds: Longest time that a partition's waiting records have had no commit; 0 if no records wait.
gauge ready: 1 while /ready answers 200, otherwise 0.
gauge state_disk_free_bytes: Free bytes of the disk with [state] directory; NaN with states in memory.
gauge state_disk_size_bytes: Bytes of the disk with [state] directory; NaN with states in memory.
"""
_BUCKETS = {"": (), "SECONDS": SECONDS, "DELAYS": DELAYS, "RATIOS": RATIOS}
_LINE = re.compile(r"(counter|gauge|histogram) (\w+)(?: \(([\w, ]+)\))? ?(\w*): (.+)")


def _metrics() -> Iterator[Metric]:
    for line in _TABLE.replace("\n    ", " ").splitlines():
        found = _LINE.fullmatch(line)
        assert found is not None, line
        kind, name, labels, buckets, text = found.groups(default="")
        yield Metric(name, kind, text, tuple(labels.split(", ")) if labels else (), _BUCKETS[buckets])  # type: ignore[arg-type]


METRICS = tuple(_metrics())
