"""What learners do: errors, drift, labels, room."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.grafana.panels import Query, chart, frame, middle_and_tail, of, quantile, rate


def learners() -> Dashboard:
    board = frame("streamjobs-learners", "learners and drift", "Errors, drift alarms, labels and the room of the models.")
    wrong, labels = rate("prediction_errors_total"), rate("labels_total")
    for panel in (
        chart(
            "Samples and rows",
            "Samples taken from records, and rows (windows, or samples) that learners advanced by.",
            "cps",
            [
                Query(rate("samples_total", "model"), "samples {{model}}"),
                Query(rate("rows_total", "model"), "rows {{model}}"),
            ],
        ),
        chart(
            "LS error",
            "Squared distance of a row to what its key's model spans; rows of all keys together.",
            "short",
            [Query(quantile(0.1, "ls_error_ratio"), "10 %"), *middle_and_tail("ls_error_ratio", exemplars=True)],
        ),
        chart(
            "Worst keys",
            "The largest newest LS errors of active keys. The live page of their worker names them.",
            "short",
            [Query(f"max by (rank) ({of('worst_ls_error_ratio')})", "rank {{rank}}")],
        ),
        chart(
            "Drift alarms",
            "Alarms of the drift detector, and of the same detector on controls; no data without [drift] and its `beside`.",
            "cps",
            [
                Query(rate("drift_events_total", "detector"), "{{detector}}"),
                Query(rate("drift_control_events_total", "control"), "control {{control}}"),
            ],
        ),
        chart(
            "Keys in drift",
            "Share of active keys with an alarm in the last 5 minutes. Many keys together point to what they share.",
            "percentunit",
            [Query(f"sum({of('keys_in_drift')}) / sum({of('keys_active')})", "in drift")],
        ),
        chart(
            "Alarms by watch",
            "Alarms that were raised, by what is watched; live keys with an open alarm, and those still warming up.",
            "short",
            [
                Query(f"sum by (watch) (increase({of('alarms_total')}[5m]))", "{{watch}}, 5 minutes"),
                Query(f"sum({of('keys_in_alarm')})", "keys in alarm"),
                Query(f"sum({of('keys_warming_up')})", "keys warming up"),
            ],
        ),
        chart(
            "P-values",
            "P-values of detectors that keep a number of false alarms, and those below 0.01: about 1 % while all is well.",
            "cps",
            [
                Query(rate("drift_p_values_total", "watch"), "{{watch}}"),
                Query(rate("drift_small_p_values_total", "watch"), "{{watch}}, below 0.01"),
            ],
        ),
        chart(
            "Wrong predictions",
            "Share of labelled rows whose class was predicted wrong; no data while none arrive.",
            "percentunit",
            [Query(f"{wrong} / {labels}")],
        ),
        chart(
            "Labels",
            "Rows that came with a label, labels that were learned clipped, and rows whose class is unknown.",
            "cps",
            [
                Query(labels, "labels {{instance}}"),
                Query(rate("targets_clipped_total"), "clipped {{instance}}"),
                Query(rate("rows_unknown_total"), "unknown {{instance}}"),
            ],
        ),
        chart(
            "Delay of labels",
            "From the event time of a batch's newest labelled row to its label's record time; no data while none arrive.",
            "s",
            middle_and_tail("label_delay_seconds"),
        ),
        chart(
            "Samples skipped, numbers filled",
            "Samples, windows and labels that were not learned, by reason; and missing numbers that were filled.",
            "cps",
            [
                Query(rate("samples_skipped_total", "reason"), "{{reason}}"),
                Query(rate("numbers_filled_total"), "numbers filled {{instance}}"),
            ],
        ),
        chart(
            "Sensors",
            "Samples taken by sensor, and how often rows were left out for want of one; 0 without [source.sensors].",
            "cps",
            [
                Query(f"{rate('sensor_samples_total', 'sensor')} or vector(0)", "samples {{sensor}}"),
                Query(f"{rate('sensor_gaps_total', 'sensor')} or vector(0)", "gaps {{sensor}}"),
            ],
        ),
        chart(
            "Forecast errors",
            "Error of forecasts over that of naive ones, by column and rows ahead: above 1 they are not worth their cost.",
            "short",
            [
                Query(
                    _over("forecast_error_total", "forecast_naive_error_total", "column, rows"), "{{column}}, {{rows}} ahead"
                )
            ],
        ),
        chart(
            "Coverage of forecasts",
            "Share of values inside their interval, by stated coverage: near it while intervals are right.",
            "percentunit",
            [
                Query(
                    _over("forecast_intervals_right_total", "forecast_intervals_total", "column, rows", "coverage"),
                    "{{column}}, {{rows}} ahead, {{coverage}} stated",
                )
            ],
        ),
        chart(
            "Forecasts judged",
            "Forecasts that were judged, by column and rows ahead; 0 without [forecast].",
            "cps",
            [Query(f"{rate('forecasts_judged_total', 'column, rows')} or vector(0)", "{{column}}, {{rows}} ahead")],
        ),
        chart(
            "Budget used",
            "Stored samples to their limit, mean of the live keys.",
            "percentunit",
            [Query(of("model_budget_used_ratio"))],
        ),
        chart("Rank", "Features in use, mean of the newest rows.", "short", [Query(of("model_rank"))]),
        chart(
            "Keys begun and ended",
            "Keys that began here, and those whose states ended because nothing came for [state] ttl.",
            "cps",
            [
                Query(rate("keys_created_total"), "begun {{instance}}"),
                Query(rate("keys_expired_total"), "ended {{instance}}"),
            ],
        ),
    ):
        board.with_panel(panel)
    return board


def _over(part: str, whole: str, by: str, more: str = "") -> str:
    """A sum over another by these labels, the first also by `more`; 0 without [forecast]."""
    if not more:
        return f"{rate(part, by)} / {rate(whole, by)} or vector(0)"
    return f"{rate(part, f'{by}, {more}')} / on ({by}) group_left () {rate(whole, by)} or vector(0)"
