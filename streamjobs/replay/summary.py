"""What a replay came to: its figures, and sentences about results that should not be trusted."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from streamjobs.core.job import Job
from streamjobs.core.live.stored import load_snapshot
from streamjobs.core.messages import Output
from streamjobs.core.output_records import Bout
from streamjobs.core.predictions import bout_of
from streamjobs.replay.alarm_rates import Rates, stated_by
from streamjobs.replay.engine import Replay
from streamjobs.replay.progress import rmse
from streamjobs.settings.types import listed, many, printable, shortened
from streamjobs.stages.names import BOUTS

MOST_NAMED = 10  # keys without a row
KEYS_OF_ONE = 20  # records; where as many have a key each of its own, the key is probably a mistake


class Figures:
    """Takes every output of a replay; its figures and warnings at the end."""

    def __init__(self, run: Replay) -> None:
        self.run, self.job, self.tally = run, run.job, run.tally
        self.started = time.monotonic()
        self.errors: list[str] = []  # message of the first dead letter
        self.rates = Rates()
        self.minutes = MinutesOfDays() if "bouts" in self.job.sinks and not run.pooled else None

    def take(self, output: Output) -> None:
        self.rates.take(output)
        if self.minutes is not None:
            self.minutes.take(output)
        if output.sink == "dlq" and not self.errors:
            self.errors.append(dict(output.headers)["streamjobs-error-message"].decode())

    def summary(self) -> dict[str, Any]:
        """The result, ready for JSON; `rmse` is None for a classification, `wrong` for a regression."""
        tally, regression = self.tally, self.job.task == "regression"
        seconds = time.monotonic() - self.started
        summary: dict[str, Any] = {
            "records": tally.records,
            "samples": tally.samples,
            "rows": tally.rows,
            "keys": tally.keys,
            "ls_error": tally.ls_error_sum / tally.ls_errors if tally.ls_errors else None,
            "labels": tally.labels,
            "wrong": None if regression else tally.wrong,
            "unpredicted": tally.labels - tally.measured if regression else tally.unpredicted,
            "rmse": rmse(tally.squared, tally.measured) if regression and tally.measured else None,
            "controls": self.run.controls.summary(),
            "unknown": None if regression else tally.unknown,
            "numbers_filled": tally.filled,
            "lacking": dict(tally.lacking.most_common()),
            "targets_clipped": tally.targets_clipped if regression else None,
            "drift_events": tally.drift_events,
            "dead_lettered": dict(tally.dead_lettered),
            "skipped": dict(tally.skipped),
            "seconds": round(seconds, 3),
            "samples_per_second": round(tally.samples / max(seconds, 1e-9)),
            "first_error": self.errors[0] if self.errors else None,
        }
        if "forecasts" in self.job.sinks:
            from streamjobs.replay.forecast_table import forecasts_judged

            summary["forecasts"] = forecasts_judged(self.job, tally)
        if "alarms" in self.job.sinks:
            drift = self.job.settings.drift
            between = stated_by(self.job.composition) if drift is not None and drift.false_alarms is not None else None
            watches = sum(not watch.control for watch in self.job.watches)
            rows = tally.rows if tally.ready is None else tally.ready / watches
            allowed = None if between is None else rows / between
            summary["alarms"] = self.rates.summary(self.run.hours) | {"allowed": allowed} | self.run.warming_up()
        if self.minutes is not None:
            summary["minutes"] = self.minutes.summary(self.job, self.run)
        return summary

    def nothing_learned(self) -> str | None:
        """As `Replay.nothing_learned`, with the message of the first dead letter."""
        return self.run.nothing_learned(self.errors[0] if self.errors else "")

    def cautions(self, summary: dict[str, Any]) -> Iterator[str]:
        """What a result that was learned from should not be trusted for."""
        tally, errors = self.tally, self.errors
        controls = summary["controls"] or {}
        if tally.unlike:
            yield tally.unlike
        yield from (sentence for sentence, _ in tally.other_units())
        if summary["wrong"] is not None and summary["wrong"] > controls.get("wrong_last_label", summary["wrong"]):
            later = "; to see what the model recognises by itself, let labels come later ([labels] delay)"
            yield (
                f"the model is wrong more often than a repeat of the key's last label ({summary['wrong']:,} and "
                f"{controls['wrong_last_label']:,} of {controls['judged']:,}). If every row has a label, repeating it is "
                f"hard to beat{later if self.job.settings.source.time is not None else ''}."
            )
        if summary["rmse"] is not None and summary["rmse"] > controls.get("rmse_last_label", summary["rmse"]):
            yield (
                f"the model's error is larger than that of a repeat of the key's last label (root mean square "
                f"{summary['rmse']:.6g} and {controls['rmse_last_label']:.6g}); try other settings with 'streamjobs tune'."
            )
        settings = self.job.settings
        taught = settings.population is not None or settings.state.start_from is not None
        if tally.rows and not tally.labels and self.job.composition.predicts and not taught:
            raw = settings.source.format == "raw"
            place, check = ("streamjobs-label", "this header") if raw else (settings.source.label, "[source] label")
            yield f"no record has a label in {place!r}, so no key learned to predict; check {check}."
        if tally.mostly_dead and tally.rows:
            dead = tally.dead_lettered.total()
            yield f"{dead:,} of {tally.records:,} records became dead letters, more than half. The first: {errors[0]}"
        if tally.rows and (without := self.run.without_rows):
            named = printable(listed(list(map(shortened, without)), MOST_NAMED))
            yield f"{len(without):,} of {many(len(self.run.met), 'key')} gave no row: {named}."
        if wrong := self.run.unwritable():
            named = printable(listed(list(map(shortened, wrong)), MOST_NAMED))
            yield (
                f"a worker sets {len(wrong):,} of {many(len(self.run.met), 'key')} aside, because states cannot be written: "
                f"{named} ({next(iter(wrong.values())).rstrip('.')}). Correct the learner."
            )
        if tally.rows:
            yield from (one.sentence for one in tally.much_skipped())
        if tally.keys == tally.samples >= KEYS_OF_ONE and tally.rows:
            yield (
                f"each of the {tally.samples:,} samples has a key of its own, so no key learned a second row; check the key."
            )


class MinutesOfDays:
    """Minutes by key, day and activity; takes all outputs of a replay, and the bouts under way at its end."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[str, dict[str, float]]] = {}

    def take(self, output: Output) -> None:
        if output.sink == "bouts" and output.value is not None:
            self._add(msgspec.json.decode(output.value, type=Bout))

    def _add(self, bout: Bout) -> None:
        for one in bout.days:
            self.by_key.setdefault(bout.key, {}).setdefault(one.day, {})[bout.activity] = one.minutes

    def summary(self, job: Job, run: Replay) -> dict[str, Any]:
        """Minutes by key, day and activity."""
        stage = job.steps.bouts
        assert stage is not None
        for (_, _, key), snapshot in run.snapshots():
            states, names, _ = load_snapshot(job, snapshot)
            for one in stage.under_way(states[BOUTS]):
                self._add(bout_of(job, key.decode("utf-8", "backslashreplace"), names, one))
        return self.by_key
