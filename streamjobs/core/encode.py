"""What leaves for every row: features, predictions and drift as JSON.

A number that does not exist (yet) is null. Every output carries `streamjobs-id`: topic-partition-offset of the record
that caused it, with -i behind it where one record gave several rows; readers drop repeats by it.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from algorithms.common.protocol import Array
from algorithms.drift import report as verdicts
from streamjobs.core import alarms
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import MOST_SHOWN, BatchRows, Output, Record, Report, ShownAlarm, Worst, record_key
from streamjobs.core.output_records import Beside, Drift, Features, encoded, output_headers
from streamjobs.core.predictions import encoded_bouts, encoded_predictions
from streamjobs.settings.composition.watches import Watch
from streamjobs.stages.rows import Modelled, Rows, Watched, count_alarms, count_judged, find_newest

if TYPE_CHECKING:
    from streamjobs.core.sensor_alarms import Sent

_made = partial(tuple.__new__, Output)  # of a tuple of its fields; a fourth of the time of Output(...)
_NO_CONTROLS: dict[str, Any] = {}
SMALL_P = 0.01  # a p-value below it is as frequent while nothing changes
_NO_COLUMNS: dict[str, float] = {}


class Encoder:
    """Turns modelled rows into outputs, each sink's in row order; what a job does not send is not encoded."""

    def __init__(self, job: Job, live: Live, records: Sequence[Record]) -> None:
        self.job, self.live, self.records = job, live, records

    def add(
        self, rows: Rows, made: Modelled, outputs: list[Output], report: Report, sent: "Sequence[Sent] | None" = None
    ) -> None:
        """Append the rows' outputs, sink by sink, and count them in the report. sent: alarms of the rows' sensors."""
        owners = rows.owner.tolist()
        stamps = self._measure(rows, made, report).tolist()
        texts = list(map(self.live.text_of.__getitem__, rows.slots.tolist()))
        sinks: list[tuple[str, list[bytes]]] = []
        if "features" in self.job.sinks:
            of_rows = texts, rows.times.tolist(), made.seq.tolist(), repeat(self.job.model), made.out.features.tolist()
            filled = () if made.filled is None else (made.filled.tolist(),)
            values = encoded(Features, *of_rows, made.out.ls_error.tolist(), made.seen.tolist(), *filled)
            sinks.append(("features", values))
        if "predictions" in self.job.sinks:
            predictions = encoded_predictions(self.job, self.live, self.records, texts, rows, made, report)
            sinks.append(("predictions", predictions))
        else:
            report.batches.append(BatchRows(texts, rows.times, made.out.ls_error))
        if "drift" in self.job.sinks:
            sinks.append(("drift", self._drift(texts, rows, made)))
        keys = list(map(record_key, map(self.records.__getitem__, owners)))
        for sink, values in sinks:
            headers = output_headers(sink, made.ids)
            outputs += map(_made, zip(repeat(sink), keys, values, stamps, headers, strict=False))
        if made.events or sent:
            raised = alarms.encoded(self.job, self.live, self.records, rows, made.ids, made.events)
            outputs += alarms.in_order(sent, rows, made.events, raised) if sent else raised
        if made.bouts:
            outputs += encoded_bouts(self.job, self.live, self.records, rows, made.ids, made.bouts)
        if made.forecasts is not None:
            from streamjobs.core.events.forecasts import encoded_forecasts

            outputs += encoded_forecasts(self.job, self.records, texts, rows, made, report)
        self._count(rows, made, report)
        if self.job.steps.alarms is not None:
            report.alarms += alarms.shown(self.job, texts, rows, made.drift, made.events, MOST_SHOWN)
            return
        for watch, seen in zip(self.job.watches, made.drift, strict=True):
            if not watch.control and len(report.alarms) < MOST_SHOWN:
                report.alarms += self._alarms(texts, rows, watch, seen)

    def _alarms(self, texts: list[str], rows: Rows, watch: Watch, seen: Watched) -> list[ShownAlarm]:
        """The first alarms of a watch, for the worker's page."""
        names, shown = (type(watch.detector).name, watch.watch), []
        for row in np.flatnonzero(seen.verdict[:, verdicts.ALARM] > 0)[:MOST_SHOWN].tolist():
            verdict = seen.verdict[row]
            figures = float(seen.value[row]), float(verdict[verdicts.BEFORE]), float(verdict[verdicts.AFTER])
            columns = alarms.shown_columns(self.job, verdict)
            shown.append(ShownAlarm(texts[row], float(rows.times[row]), *names, *figures, columns))
        return shown

    def _drift(self, texts: list[str], rows: Rows, made: Modelled) -> list[bytes]:
        own, *controls = zip(self.job.watches, made.drift, strict=True)
        names = map(repeat, (self.job.model, type(own[0].detector).name, own[0].name, own[0].watch))
        beside: Iterable[dict[str, Beside]] = repeat(_NO_CONTROLS)
        if controls:
            beside = list[dict[str, Beside]]({} for _ in texts)
        for watch, seen in controls:
            name = watch.name if watch.control else watch.watch
            for one, value, (statistic, alarm, *_) in zip(beside, seen.value.tolist(), seen.verdict.tolist(), strict=True):
                one[name] = Beside(value, statistic, alarm > 0)
        verdict = own[1].verdict
        judged = verdict[:, 0].tolist(), (verdict[:, 1] > 0).tolist(), verdict[:, 2].tolist(), verdict[:, 3].tolist()
        places = texts, rows.times.tolist(), made.seq.tolist()
        filled: Iterable[Any] = repeat(msgspec.UNSET) if made.filled is None else made.filled.tolist()
        if verdict.shape[1] <= verdicts.COLUMNS:
            return encoded(Drift, *places, *names, own[1].value.tolist(), *judged, made.seen.tolist(), filled, beside)
        more = (
            (verdict[:, verdicts.READY] == 0).tolist(),
            (verdict[:, verdicts.OPEN] > 0).tolist(),
            map(_whole, verdict[:, verdicts.SINCE].tolist()),
        )
        moved = map(self._moved, verdict)
        return encoded(
            Drift, *places, *names, own[1].value.tolist(), *judged, made.seen.tolist(), filled, beside, *more, moved
        )

    def _moved(self, verdict: Array) -> dict[str, float]:
        """Names of the columns that an alarm names, by how far they moved."""
        if verdict.size < verdicts.WIDE_COLUMNS or not verdict[verdicts.ALARM] > 0:
            return _NO_COLUMNS
        names = self.job.composition.watched
        named = zip(
            verdict[verdicts.FIRST_COLUMN :: verdicts.OF_COLUMN].tolist(),
            verdict[verdicts.FIRST_SHIFT :: verdicts.OF_COLUMN].tolist(),
            strict=True,
        )
        return {names[int(column)]: shift for column, shift in named if math.isfinite(column)}

    def _measure(self, rows: Rows, made: Modelled, report: Report) -> Array:
        """Count rows and their LS errors; gives the rows' times (n,) in milliseconds."""
        errors, latest, stamps = made.out.ls_error, self.live.latest, np.empty(len(rows.slots), np.int64)
        newest, worst, known = find_newest(rows.slots, rows.times, errors, latest.errors, stamps)
        report.rows += len(stamps)
        if rows.times[newest] > report.newest_event:
            report.newest_event = float(rows.times[newest])
            report.newest_delay = self.records[int(rows.owner[newest])].timestamp / 1000.0 - report.newest_event
        if known:
            report.ls_errors.append(errors if known == len(errors) else errors[np.isfinite(errors)])
            if report.worst is None or errors[worst] > report.worst.ls_error:
                key = self.records[int(rows.owner[worst])].key or b""
                digest = blake2b(key, digest_size=8).hexdigest()
                report.worst = Worst(float(errors[worst]), digest, float(rows.times[worst]))
        return stamps

    def _count(self, rows: Rows, made: Modelled, report: Report) -> None:
        latest = self.live.latest
        if self.job.settings.head is not None or self.job.learner.kind == "features":
            latest.features = made.out.features
        for number, (watch, seen) in enumerate(zip(self.job.watches, made.drift, strict=True)):
            if watch.control:
                alarms = int((seen.verdict[:, verdicts.ALARM] > 0).sum())
                report.control_events[watch.name] = report.control_events.get(watch.name, 0) + alarms
                continue
            alarms = count_alarms(rows.slots, seen.verdict, self.live.now, latest.alarmed)
            report.drift_events += alarms
            report.watch_events[watch.watch] = report.watch_events.get(watch.watch, 0) + alarms
            if seen.verdict.shape[1] > verdicts.COLUMNS:
                latest.detectors |= 1 << number
                judged, small, ready = count_judged(rows.slots, seen.verdict, SMALL_P, 1 << number, latest.warming)
                counts = report.p_values.setdefault(watch.watch, [0, 0])
                counts[0] += judged
                counts[1] += small
                report.ready += ready


def _whole(rows: float) -> int | None:
    return int(rows) if math.isfinite(rows) else None
