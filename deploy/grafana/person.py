"""One key among all: metrics name no key, so this page shows everybody and leads to the worker that knows the one."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, TextBoxVariable

from deploy.grafana.panels import Query, chart, frame, middle_and_tail, of, quantile, rate, text

HOW = """\
Metrics never name a key: with 50,000 keys a scrape would have 54 MB, and names of people do not belong in Prometheus.

1. Enter a key above. `streamjobs state show job.toml ${key:text}` prints its state, its LS error and its alarms from the
   changelog; the worker that has the key answers the same from memory: `curl http://WORKER/api/keys/${key:percentencode}`
   (from another machine with the header `Authorization: Bearer TOKEN`). The live page of a worker, at `/`, lists the keys
   that are worst now.
2. Points on the chart below are exemplars: a single row with the hash of its key (Prometheus keeps them with
   `--enable-feature=exemplar-storage`). The hash of the key you look for:
   `python3 -c 'import hashlib; print(hashlib.blake2b(b"${key:text}", digest_size=8).hexdigest())'`.
3. Compare: is the person's LS error above the 99 % line, do alarms come alone or with those of many others?
"""


def person() -> Dashboard:
    board = frame("streamjobs-person", "one person", "One key beside all others; metrics name no key.")
    board.with_variable(TextBoxVariable("key").label("Key").default_value("person-01"))
    for panel in (
        text("How to find one person", "What metrics can tell of one key, and who tells the rest.", HOW),
        chart(
            "LS error of all keys, with exemplars",
            "Where a person's LS error stands among all rows. Points are single rows, with the hash of their key.",
            "short",
            [
                Query(quantile(0.1, "ls_error_ratio"), "10 %"),
                Query(quantile(0.9, "ls_error_ratio"), "90 %"),
                *middle_and_tail("ls_error_ratio", exemplars=True),
            ],
            span=16,
        ),
        chart(
            "Worst keys",
            "The largest newest LS errors of active keys, by rank.",
            "short",
            [Query(f"max by (rank) ({of('worst_ls_error_ratio')})", "rank {{rank}}")],
        ),
        chart(
            "Keys in drift",
            "Active keys, and those with an alarm in the last 5 minutes: one person, or everybody?",
            "short",
            [Query(f"sum({of('keys_active')})", "active"), Query(f"sum({of('keys_in_drift')})", "in drift")],
        ),
        chart(
            "Wrong predictions of all keys",
            "Share of labelled rows whose class was predicted wrong, to compare a person's with; no data while none arrive.",
            "percentunit",
            [Query(f"{rate('prediction_errors_total')} / {rate('labels_total')}")],
        ),
        chart(
            "Event delay of all keys",
            "From event time to record time: whether records of a person could be here already.",
            "s",
            middle_and_tail("event_delay_seconds"),
        ),
    ):
        board.with_panel(panel)
    return board
