"""How records come in and outputs and states get out: lag, checkpoints, changelog, store, recovery."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.grafana.panels import Query, chart, frame, middle_and_tail, of, quantile, rate


def delivery() -> Dashboard:
    board = frame("streamjobs-delivery", "delivery and state", "Lag, checkpoints, changelog, store, recovery and disk.")
    for panel in (
        chart(
            "Records in and out",
            "Records taken from the input, and outputs handed to the broker, by topic.",
            "cps",
            [
                Query(rate("records_consumed_total", "topic"), "in {{topic}}"),
                Query(rate("records_produced_total", "topic"), "out {{topic}}"),
            ],
        ),
        chart("Bytes in", "Bytes of the values of records taken.", "Bps", [Query(rate("consumed_bytes_total"))]),
        chart(
            "Lag of partitions",
            "Records after the newest one with safe outputs, up to the end of each partition.",
            "short",
            [Query(f"sum by (topic, partition) ({of('consumer_lag_records')})", "{{topic}} {{partition}}")],
        ),
        chart(
            "Time of steps",
            "Seconds a second that each step takes: advance computes, the others are steps of a checkpoint.",
            "percentunit",
            [Query(rate("stage_duration_seconds_sum", "stage"), "{{stage}}")],
        ),
        chart(
            "Slowest steps",
            "99 % of the calls of each step take less than this.",
            "s",
            [Query(quantile(0.99, "stage_duration_seconds", "stage"), "{{stage}}")],
        ),
        chart(
            "Schema registry",
            "Answers by outcome; and for how long records have waited for a schema. Flat at 0 in jobs without a registry.",
            "cps",
            [
                Query(rate("schema_registry_requests_total", "outcome"), "{{outcome}}"),
                Query(of("schema_registry_waiting_seconds"), "waiting, s {{instance}}"),
            ],
        ),
        chart("Commits", "Checkpoints whose input offset the group took.", "cps", [Query(rate("commits_total"))]),
        chart(
            "Duration of commits",
            "Median and tail of committing an input offset.",
            "s",
            middle_and_tail("commit_duration_seconds"),
        ),
        chart(
            "Since the last commit",
            "Longest time that a partition's waiting records have been without a commit, and since any commit.",
            "s",
            [
                Query(of("uncommitted_seconds"), "waiting {{instance}}"),
                Query(f"time() - ({of('last_commit_timestamp_seconds')} > 0)", "any {{instance}}"),
            ],
        ),
        chart(
            "Age of the newest row",
            "Now less the event time of the newest row; and how far clocks of devices are ahead.",
            "s",
            [
                Query(f"time() - ({of('last_record_timestamp_seconds')} > 0)", "age {{instance}}"),
                Query(of("clock_skew_seconds"), "ahead {{instance}}"),
            ],
        ),
        chart("Changelog", "Bytes of the snapshots written.", "Bps", [Query(rate("changelog_bytes_total"))]),
        chart("Snapshots", "Snapshots written to the changelog.", "cps", [Query(rate("changelog_records_total"))]),
        chart(
            "Keys to write",
            "Keys changed since their last checkpoint.",
            "short",
            [Query(of("state_dirty_keys"))],
        ),
        chart(
            "Live states", "Bytes of states in memory; [state] cache is their limit.", "bytes", [Query(of("state_bytes"))]
        ),
        chart(
            "States outside memory",
            "States read from the local store, and keys that left memory for want of room.",
            "cps",
            [
                Query(rate("state_reads_total"), "read {{instance}}"),
                Query(rate("keys_evicted_total"), "left {{instance}}"),
            ],
        ),
        chart(
            "Disk free",
            "Share of the disk with [state] directory that is free.",
            "percentunit",
            [Query(f"{of('state_disk_free_bytes')} / {of('state_disk_size_bytes')}")],
        ),
        chart(
            "Recovery: records left",
            "Changelog records still to be read before a worker begins, and records still to be applied again.",
            "short",
            [
                Query(of("recovery_remaining_records"), "to read {{instance}}"),
                Query(of("replay_remaining_records"), "to apply {{instance}}"),
            ],
        ),
        chart("Recovery: duration", "Duration of the last recovery.", "s", [Query(of("recovery_duration_seconds"))]),
        chart(
            "Replay: cost of a crash",
            "Processor time that a crash now would cost in applying records again; see [state] replay.",
            "s",
            [Query(of("replay_seconds"))],
        ),
        chart(
            "Replay: records",
            "Records that some stored state has not learned yet, and records applied again in the last 5 minutes.",
            "short",
            [
                Query(of("replay_records"), "not in a state {{instance}}"),
                Query(f"increase({of('replayed_records_total')}[5m])", "applied again {{instance}}"),
            ],
        ),
        chart(
            "Partitions and rebalances",
            "Input partitions of each worker, and assignments in the last 5 minutes.",
            "short",
            [
                Query(of("assigned_partitions"), "partitions {{instance}}"),
                Query(f"increase({of('rebalances_total')}[5m])", "rebalances {{instance}}"),
            ],
        ),
        chart(
            "Records delivered again",
            "Records skipped because their key had applied them already: after a crash or a rebalance.",
            "cps",
            [Query(rate("records_redelivered_total"))],
        ),
        chart("Open files", "File descriptors in use.", "short", [Query(of("process_open_fds"))]),
        chart(
            "Starts",
            "Time since the process started, and the version it runs.",
            "s",
            [
                Query(
                    f"(time() - {of('process_start_time_seconds')})"
                    f" * on (instance) group_left (version) max by (instance, version) ({of('build_info')})",
                    "{{instance}} {{version}}",
                )
            ],
        ),
    ):
        board.with_panel(panel)
    return board
