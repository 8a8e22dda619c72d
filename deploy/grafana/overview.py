"""Is the job well: what an operator looks at first."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.grafana.panels import Query, chart, figure, frame, middle_and_tail, of, rate

LATE = 60  # seconds; an edge of the histogram's buckets, and the target of the alert StreamjobsFallingBehind


def overview() -> Dashboard:
    edge = f'le="{LATE}.0"'
    on_time = f"sum(rate({of('processing_delay_seconds_bucket', edge)}[1h]))"
    batches = f"sum(rate({of('processing_delay_seconds_count')}[1h]))"
    board = frame("streamjobs-overview", "overview", "Whether workers run, keep up and learn.")
    for panel in (
        figure("Workers ready", "Workers whose /ready answers 200.", "short", f"sum({of('ready')})", bad_below=1),
        figure("Partitions", "Input partitions that workers have.", "short", f"sum({of('assigned_partitions')})"),
        figure(
            "Records waiting now", "Records behind the committed offsets.", "short", f"sum({of('consumer_lag_records')})"
        ),
        figure(
            "Late batches",
            f"Share of the last hour's batches applied later than {LATE} s after their record time. The target is 1 %.",
            "percentunit",
            f"1 - {on_time} / {batches}",
            bad_above=0.01,
        ),
        figure("Active keys", "Keys with a record in the last 5 minutes.", "short", f"sum({of('keys_active')})"),
        figure(
            "Dead letters, last hour",
            "Records of the last hour that could not be used: streamjobs dlq list job.toml.",
            "short",
            f"sum(increase({of('records_dead_lettered_total')}[1h]))",
            bad_above=1,
        ),
        chart("Records taken", "Records taken from the input.", "cps", [Query(rate("records_consumed_total"))]),
        chart(
            "Processing delay",
            "From a batch's record time until a worker has applied it; it grows while the job is behind.",
            "s",
            middle_and_tail("processing_delay_seconds"),
        ),
        chart(
            "Event delay",
            "From the event time of a batch's newest sample to its record time: devices, networks and producers.",
            "s",
            middle_and_tail("event_delay_seconds"),
        ),
        chart(
            "Waiting records",
            "Records behind the committed offsets.",
            "short",
            [Query(f"sum by (instance) ({of('consumer_lag_records')})")],
        ),
        chart(
            "LS error",
            "Squared distance of a row to what its key's model spans; rows of all keys together.",
            "short",
            middle_and_tail("ls_error_ratio"),
        ),
        chart(
            "Keys",
            "Keys with live states, with a record in the last 5 minutes, and of those with a drift alarm.",
            "short",
            [
                Query(f"sum({of('keys')})", "live"),
                Query(f"sum({of('keys_active')})", "active"),
                Query(f"sum({of('keys_in_drift')})", "in drift"),
            ],
        ),
        chart(
            "Dead letters",
            "Records that could not be used, by reason.",
            "cps",
            [Query(rate("records_dead_lettered_total", "reason"), "{{reason}}")],
        ),
        chart(
            "Processor",
            "Seconds of processor a second; a worker uses one core.",
            "short",
            [Query(rate("process_cpu_seconds_total"))],
        ),
        chart(
            "Memory",
            "Resident memory of workers.",
            "bytes",
            [Query(f"sum by (instance) ({of('process_resident_memory_bytes')})")],
        ),
    ):
        board.with_panel(panel)
    return board
