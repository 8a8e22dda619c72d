"""What leaves: features, predictions and drift as JSON, and dead letters with their original bytes untouched.

A number that does not exist (yet) is null. Every output carries `streamjobs-id`: topic-partition-offset of the record
that caused it, with -i behind it where one record gave several rows; readers drop repeats by it.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from streamjobs import __version__
from streamjobs.core.job import Job
from streamjobs.core.live import Live
from streamjobs.core.messages import Output, Record, Report
from streamjobs.errors import RecordError

if TYPE_CHECKING:
    from streamjobs.core.advance import Modelled, Rows

VERSION = __version__.encode()
_json = msgspec.json.Encoder().encode


class Features(msgspec.Struct):
    """A record of the features topic."""

    key: str
    ts: float  # event time, seconds since 1970; of a window its end
    seq: int  # number of this row within its key, from 0
    model: str
    z: list[float]  # features of x, before x was learned
    ls_error: float  # squared distance of phi(x) to what the model spans, before x was learned
    n_seen: int  # rows the learner had seen before this one (a warm start's included)


class Prediction(msgspec.Struct):
    """A record of the predictions topic."""

    key: str
    ts: float
    seq: int
    model: str
    y_hat: str | float | list[float] | None  # class or number(s); null until something has been learned
    score: float | None  # of the chosen class
    y: str | float | list[float] | None  # the label that came with the record
    ls_error: float
    drift: bool | None  # this row raised an alarm; null without a detector
    n_seen: int
    classes: int  # how many classes had been labelled before this row


class Drift(msgspec.Struct):
    """A record of the drift topic, one for every row."""

    key: str
    ts: float
    seq: int
    model: str
    detector: str
    watch: str
    value: float  # what the detector saw
    statistic: float
    alarm: bool
    before: float  # mean before the suspected change
    after: float
    n_seen: int


def dead_letter(record: Record, error: RecordError) -> Output:
    """The record as it came, with headers that say why it could not be used."""
    headers = [
        ("streamjobs-id", f"{record.topic}-{record.partition}-{record.offset}".encode()),
        ("streamjobs-error-reason", error.reason.encode()),
        ("streamjobs-error-message", str(error).encode()),
        ("streamjobs-error-stage", error.stage.encode()),
        ("streamjobs-error-topic", record.topic.encode()),
        ("streamjobs-error-partition", b"%d" % record.partition),
        ("streamjobs-error-offset", b"%d" % record.offset),
        ("streamjobs-error-timestamp", b"%d" % record.timestamp),
        ("streamjobs-error-attempt", b"1"),
        ("streamjobs-error-version", VERSION),
    ]
    return Output("dlq", record.key, record.value, record.timestamp, [*headers, *record.headers])


class Encoder:
    """Turns modelled rows into outputs, in row order; what a job does not send is not encoded."""

    def __init__(self, job: Job, live: Live, records: Sequence[Record]) -> None:
        self.job, self.live, self.records = job, live, records

    def add(self, rows: "Rows", made: "Modelled", outputs: list[Output], report: Report) -> None:
        """Append the rows' outputs and count them in the report."""
        slots, owners = rows.slots.tolist(), rows.owner.tolist()
        sinks: list[tuple[str, list[bytes]]] = []
        if "features" in self.job.sinks:
            sinks.append(("features", self._features(slots, rows, made)))
        if "predictions" in self.job.sinks:
            sinks.append(("predictions", self._predictions(slots, rows, made, report)))
        if "drift" in self.job.sinks:
            sinks.append(("drift", self._drift(slots, rows, made)))
        stamps = np.rint(rows.times * 1000.0).astype(np.int64).tolist()
        for n, identity in enumerate(self._identities(owners)):
            key, headers = self.records[owners[n]].key, [("streamjobs-id", identity)]
            for sink, values in sinks:
                outputs.append(
                    Output(sink, self.live.key_of[slots[n]] if key is None else key, values[n], stamps[n], headers)
                )
        self._count(rows, made, report)

    def _identities(self, owners: list[int]) -> list[bytes]:
        times: dict[int, int] = {}
        for owner in owners:
            times[owner] = times.get(owner, 0) + 1
        bases, running, identities = {}, dict.fromkeys(times, 0), []
        for owner in times:
            record = self.records[owner]
            bases[owner] = f"{record.topic}-{record.partition}-{record.offset}".encode()
        for owner in owners:
            if times[owner] == 1:
                identities.append(bases[owner])
            else:
                identities.append(b"%s-%d" % (bases[owner], running[owner]))
                running[owner] += 1
        return identities

    def _features(self, slots: list[int], rows: "Rows", made: "Modelled") -> list[bytes]:
        text, model = self.live.text_of, self.job.model
        columns = (slots, rows.times.tolist(), made.seq.tolist(), made.out.features.tolist())
        errors, seen = made.out.ls_error.tolist(), made.seen.tolist()
        return [
            _json(Features(text[s], t, q, model, z, e, c)) for s, t, q, z, e, c in zip(*columns, errors, seen, strict=True)
        ]

    def _predictions(self, slots: list[int], rows: "Rows", made: "Modelled", report: Report) -> list[bytes]:
        text, model, values = self.live.text_of, self.job.model, []
        seq, seen, times = made.seq.tolist(), made.seen.tolist(), rows.times.tolist()
        errors, scores, truths = made.out.ls_error.tolist(), made.out.prediction.tolist(), rows.L.tolist()
        alarms = [None] * len(slots) if made.drift is None else (made.drift[:, 1] > 0).tolist()
        chosen = None if made.chosen is None else made.chosen.tolist()
        known = made.known.tolist()
        for n, slot in enumerate(slots):
            names = self.live.names[0 if self.live.pooled else slot]
            y_hat: str | float | list[float] | None
            y: str | float | list[float] | None
            if chosen is None:
                y_hat, score, y = _number(scores[n]), None, _number(truths[n])
            else:
                column, truth = chosen[n], truths[n][0]
                y_hat, score = (None, None) if column < 0 else (names[column], scores[n][column])
                y = None if math.isnan(truth) else names[int(truth)]
                report.labels += y is not None
                report.wrong += column >= 0 and y is not None and y_hat != y
            values.append(
                _json(
                    Prediction(text[slot], times[n], seq[n], model, y_hat, score, y, errors[n], alarms[n], seen[n], known[n])
                )
            )
        return values

    def _drift(self, slots: list[int], rows: "Rows", made: "Modelled") -> list[bytes]:
        assert made.drift is not None and self.job.settings.drift is not None
        text, model = self.live.text_of, self.job.model
        table = self.job.settings.drift.detector
        detector, watch = table if isinstance(table, str) else str(table["name"]), self.job.settings.drift.watch
        columns = (
            slots,
            rows.times.tolist(),
            made.seq.tolist(),
            made.watched.tolist(),
            made.drift.tolist(),
            made.seen.tolist(),
        )
        return [
            _json(Drift(text[s], t, q, model, detector, watch, v, d[0], d[1] > 0, d[2], d[3], c))
            for s, t, q, v, d, c in zip(*columns, strict=True)
        ]

    def _count(self, rows: "Rows", made: "Modelled", report: Report) -> None:
        report.rows += len(rows.slots)
        errors = made.out.ls_error
        report.ls_errors += errors[np.isfinite(errors)].tolist()
        if made.drift is not None:
            report.drift_events += int((made.drift[:, 1] > 0).sum())
        newest = int(np.argmax(rows.times))
        if rows.times[newest] > report.newest_event:
            report.newest_event = float(rows.times[newest])
            report.newest_delay = self.records[int(rows.owner[newest])].timestamp / 1000.0 - report.newest_event


def _number(values: list[float]) -> float | list[float] | None:
    """A regression's number, or numbers; None while they are unknown."""
    if any(math.isnan(value) for value in values):
        return None
    return values[0] if len(values) == 1 else values
