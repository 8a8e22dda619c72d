"""Every metric of a worker: its name, help, labels and buckets. `worker.metrics` says how to add one."""

from typing import NamedTuple

PREFIX = "streamjobs_"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DELAYS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21600.0, 86400.0)
RATIOS = tuple(float(f"{10 ** (step / 4):.3g}") for step in range(-24, 9))  # four a decade, 1e-6 to 100
SCHEMA_ANSWERS = ("found", "unusable", "not_found", "failed")
STAGES = ("advance", "outputs", "changelog", "offsets", "store", "commit")


class Metric(NamedTuple):
    name: str  # without the prefix
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def kind(self) -> str:
        """counter, histogram or gauge."""
        return "counter" if self.name.endswith("_total") else "histogram" if self.buckets else "gauge"


METRICS: tuple[Metric, ...] = (
    Metric("build_info", "1, with the version and the job's name ([job] name) as labels.", ("version", "job_name")),
    Metric("records_consumed_total", "Records taken from the input.", ("topic",)),
    Metric("consumed_bytes_total", "Bytes of the values of records taken from the input.", ("topic",)),
    Metric(
        "records_redelivered_total",
        "Records read again after their keys had applied them, or after they had become dead letters.",
    ),
    Metric("samples_total", "Samples taken from records; a record can have several.", ("model",)),
    Metric("rows_total", "Rows (windows, or samples) that learners received.", ("model",)),
    Metric("samples_skipped_total", "Samples that were not learned.", ("reason",)),
    Metric("records_dead_lettered_total", "Records that could not be used and went to the dead-letter topic.", ("reason",)),
    Metric("records_produced_total", "Outputs handed to the broker.", ("topic",)),
    Metric("stage_duration_seconds", "Duration of one call of advance, or of a step of a checkpoint.", ("stage",), SECONDS),
    Metric("event_delay_seconds", "Time from the event time of a batch's newest sample to its record time.", (), DELAYS),
    Metric(
        "processing_delay_seconds",
        "Time from the record time of a batch's newest row until the worker had applied the batch.",
        (),
        DELAYS,
    ),
    Metric("clock_skew_seconds", "How far a batch's newest event time is ahead of its record time; 0 if it is not ahead."),
    Metric("ls_error_ratio", "LS error of a row; exemplars have a hash of the key.", (), RATIOS),
    Metric("worst_ls_error_ratio", "LS error of the newest row of an active key: the ten largest, rank 1 to 10.", ("rank",)),
    Metric("drift_events_total", "Alarms of the drift detector.", ("detector",)),
    Metric(
        "drift_control_events_total",
        "Alarms of the same detector on its controls, which are simple learners for comparison.",
        ("control",),
    ),
    Metric("alarms_total", "Alarms that were raised, by what is watched.", ("watch",)),
    Metric(
        "drift_p_values_total",
        "P-values of rows without an open alarm, from detectors with a limit of false alarms.",
        ("watch",),
    ),
    Metric(
        "drift_small_p_values_total",
        "P-values below 0.01: about 1 % of drift_p_values_total while nothing changes.",
        ("watch",),
    ),
    Metric("forecasts_judged_total", "Judged forecasts: the forecast value has arrived.", ("column", "rows")),
    Metric(
        "forecast_error_total",
        "Sum of |forecast - value| of the judged forecasts, in units of the column.",
        ("column", "rows"),
    ),
    Metric(
        "forecast_naive_error_total",
        "Sum of |last value - value| of the judged forecasts: the error of the naive forecast.",
        ("column", "rows"),
    ),
    Metric("forecast_intervals_total", "Intervals of judged forecasts.", ("column", "rows")),
    Metric(
        "forecast_intervals_right_total",
        "Intervals that contain the value, by [forecast] coverage.",
        ("column", "rows", "coverage"),
    ),
    Metric("keys", "Keys with a live state in this worker."),
    Metric("keys_set_aside", "Keys with a state that cannot be read or written: their records become dead letters."),
    Metric("keys_active", "Live keys with a record in the last 5 minutes."),
    Metric(
        "keys_in_drift",
        "Active keys with an open alarm; without [drift] false_alarms those with an alarm in the last 5 minutes.",
    ),
    Metric("keys_in_alarm", "Keys with an open alarm."),
    Metric("keys_warming_up", "Active keys with too few rows yet for any alarm."),
    Metric("keys_created_total", "Keys that started in this worker."),
    Metric("state_reads_total", "States read from the local store because their keys were not among the live states."),
    Metric("keys_evicted_total", "Keys that left the live states to make room, until their next record."),
    Metric("keys_expired_total", "Keys removed because no record arrived for [state] ttl."),
    Metric(
        "model_budget_used_ratio",
        "Stored samples divided by their limit, mean of the live keys; NaN if the model stores no samples.",
    ),
    Metric("model_rank", "Features in use, mean of the newest rows; NaN if the model has no features."),
    Metric("labels_total", "Rows with a label."),
    Metric(
        "label_delay_seconds",
        "Time from the event time of a batch's newest labelled row to its label's record time.",
        (),
        DELAYS,
    ),
    Metric("prediction_errors_total", "Labelled rows with a wrong prediction.", ("kind",)),
    Metric("rows_unknown_total", "Rows of an unknown class: see [head] reject."),
    Metric("numbers_filled_total", "Missing numbers that [source] missing filled."),
    Metric("sensor_samples_total", "Samples of each sensor of [source.sensors].", ("sensor",)),
    Metric(
        "sensor_gaps_total",
        "How often rows were left out because a sensor had no samples; see [source.sensors].",
        ("sensor",),
    ),
    Metric("targets_clipped_total", "Labels that [head] clip_target clipped before they were learned."),
    Metric(
        "consumer_lag_records",
        "Records after the newest one with safe outputs, up to the end of the partition.",
        ("topic", "partition"),
    ),
    Metric("state_bytes", "Bytes of live states in memory.", ("store",)),
    Metric("state_dirty_keys", "Keys changed since their last checkpoint."),
    Metric("changelog_bytes_total", "Bytes of the snapshots written.", ("store",)),
    Metric("changelog_records_total", "Snapshots written.", ("store",)),
    Metric("recovery_remaining_records", "Changelog records still to be read before the worker begins."),
    Metric("recovery_duration_seconds", "Duration of the last recovery."),
    Metric("replay_seconds", "Processor time that a crash now would cost in applying records again; see [state] replay."),
    Metric("replay_used_ratio", "Used share of the limit that [state] replay sets."),
    Metric("replay_records", "Records with outputs that some state in the changelog has not learned yet."),
    Metric("replay_remaining_records", "Records still to be applied again after a takeover."),
    Metric("replayed_records_total", "Records that were applied again, with outputs held back."),
    Metric("replay_lost_records_total", "Records with outputs that the broker deleted before all states had learned them."),
    Metric("records_deleted_total", "Records that the broker deleted before this job read them."),
    Metric("rebalances_total", "Assignments of partitions to this worker."),
    Metric("assigned_partitions", "Input partitions of this worker."),
    Metric("commits_total", "Checkpoints with a committed input offset."),
    Metric("commit_duration_seconds", "Duration of committing an input offset.", (), SECONDS),
    Metric("last_commit_timestamp_seconds", "Time of the last commit, in seconds since 1970."),
    Metric("last_record_timestamp_seconds", "Event time of the newest row, in seconds since 1970."),
    Metric(
        "schema_registry_requests_total",
        "Answers of the schema registry: found, unusable (a schema of another type, or damaged), not_found, failed (no "
        "answer, or an invalid one).",
        ("outcome",),
    ),
    Metric(
        "schema_registry_waiting_seconds",
        "Time for which records have waited for a schema that the registry does not return; 0 while no records wait.",
    ),
    Metric(
        "uncommitted_seconds", "Longest time that a partition's waiting records have had no commit; 0 if no records wait."
    ),
    Metric("ready", "1 while /ready answers 200, otherwise 0."),
    Metric("state_disk_free_bytes", "Free bytes of the disk with [state] directory; NaN with states in memory."),
    Metric("state_disk_size_bytes", "Bytes of the disk with [state] directory; NaN with states in memory."),
)
