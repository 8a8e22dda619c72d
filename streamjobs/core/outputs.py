"""What leaves: features, predictions and drift as JSON, and dead letters with their original bytes untouched.

A number that does not exist (yet) is null. Every output carries `streamjobs-id`: topic-partition-offset of the record
that caused it, with -i behind it where one record gave several rows; readers drop repeats by it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any

import msgspec
import numpy as np

from algorithms.common.protocol import Array
from streamjobs import __version__
from streamjobs.core.drifting import named
from streamjobs.core.job import Job
from streamjobs.core.live import Live
from streamjobs.core.messages import Output, Record, Report, Worst
from streamjobs.core.rows import Modelled, Rows, Said
from streamjobs.errors import RecordError

VERSION = __version__.encode()
LETTER_HEADERS = (  # of a dead letter, before those the record came with
    "streamjobs-id",
    *(f"streamjobs-error-{name}" for name in ("reason", "message", "stage", "topic", "partition", "offset", "timestamp")),
    "streamjobs-error-attempt",
    "streamjobs-error-version",
)
ATTEMPT = "streamjobs-attempt"  # header of a record sent back from the dead letters
ATTEMPT_DIGITS = 6
_json = msgspec.json.Encoder().encode
_NO_CONTROLS: dict[str, Any] = {}


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

    key: str  # the record's, as text
    ts: float  # event time, seconds since 1970; of a window its end
    seq: int  # number of this row within its key, from 0
    model: str  # learner and head
    y_hat: str | float | list[float] | None  # class or number(s); null until something has been learned
    score: float | None  # of the chosen class
    smoothed: float | None  # its score smoothed, which decided; null where [head] smooth is 0
    y: str | float | list[float] | None  # the label that came with the record
    ls_error: float  # squared distance of phi(x) to what the model spans; null where the learner has none
    drift: bool | None  # this row raised an alarm; null without a detector
    n_seen: int  # rows the learner had seen before this one, those that taught the population included
    classes: int  # how many classes could have been said: those labelled before this row, or known to the population
    labelled: list[str] | None  # classes whose label this key's head had learned before this row; null in a regression
    head: str | None  # frozen (the population's) or adapted (the key's own): which weighs more; null where there is one
    share: float | None  # weight of the adapted head in the scores, 0 to 1


class Beside(msgspec.Struct):
    """What the same detector says of a control."""

    value: float  # the control's LS error
    statistic: float
    alarm: bool


class Drift(msgspec.Struct, omit_defaults=True):
    """A record of the drift topic, one for every row."""

    key: str
    ts: float
    seq: int
    model: str
    detector: str
    extractor: str  # the learner whose error the detector watches: the job's own, or one that only follows
    watch: str
    value: float  # what the detector saw; null where nothing was there to see, as of an idle sensor
    statistic: float
    alarm: bool
    before: float  # mean before the suspected change
    after: float
    n_seen: int
    beside: dict[str, Beside] = {}  # by control; absent without any


def dead_letter(record: Record, error: RecordError) -> Output:
    """The record as it came, with headers that say why it could not be used."""
    values = (
        f"{record.topic}-{record.partition}-{record.offset}".encode(),
        error.reason.encode(),
        str(error).encode(),
        error.stage.encode(),
        record.topic.encode(),
        b"%d" % record.partition,
        b"%d" % record.offset,
        b"%d" % record.timestamp,
        b"%d" % _attempt(record),
        VERSION,
    )
    headers = list(zip(LETTER_HEADERS, values, strict=True))
    return Output("dlq", record.key, record.value, record.timestamp, [*headers, *record.headers])


def _attempt(record: Record) -> int:
    """How often this record has been tried: 1, or what it was sent back with."""
    for name, text in record.headers:
        if name == ATTEMPT and text and len(text) <= ATTEMPT_DIGITS and text.isdigit():
            return max(1, int(text))
    return 1


class Encoder:
    """Turns modelled rows into outputs, each sink's in row order; what a job does not send is not encoded."""

    def __init__(self, job: Job, live: Live, records: Sequence[Record]) -> None:
        self.job, self.live, self.records = job, live, records

    def add(self, rows: Rows, made: Modelled, outputs: list[Output], report: Report) -> None:
        """Append the rows' outputs, sink by sink, and count them in the report."""
        slots, owners = rows.slots.tolist(), rows.owner.tolist()
        sinks: list[tuple[str, list[bytes]]] = []
        if "features" in self.job.sinks:
            sinks.append(("features", self._features(slots, rows, made)))
        if "predictions" in self.job.sinks:
            sinks.append(("predictions", self._predictions(slots, rows, made, report)))
        if "drift" in self.job.sinks:
            sinks.append(("drift", self._drift(slots, rows, made)))
        stamps = np.rint(rows.times * 1000.0).astype(np.int64).tolist()
        keys = [self.records[owner].key for owner in owners]
        headers = [[("streamjobs-id", identity)] for identity in self._identities(owners)]
        for sink, values in sinks:
            outputs += map(Output, repeat(sink), keys, values, stamps, headers)
        self._count(rows, made, report)

    def _identities(self, owners: list[int]) -> list[bytes]:
        records = self.records
        topic, partition = records[owners[0]].topic, records[owners[0]].partition
        base = f"{topic}-{partition}-".encode()
        identities = [b"%s%d" % (base, records[owner].offset) for owner in owners]
        if len(set(owners)) == len(owners):
            return identities
        times = Counter(owners)
        running: Counter[int] = Counter()
        for n, owner in enumerate(owners):
            if times[owner] > 1:
                identities[n] += b"-%d" % running[owner]
                running[owner] += 1
        return identities

    def _features(self, slots: list[int], rows: Rows, made: Modelled) -> list[bytes]:
        text, model = self.live.text_of, self.job.model
        columns = (slots, rows.times.tolist(), made.seq.tolist(), made.out.features.tolist())
        errors, seen = made.out.ls_error.tolist(), made.seen.tolist()
        return [
            _json(Features(text[s], t, q, model, z, e, c)) for s, t, q, z, e, c in zip(*columns, errors, seen, strict=True)
        ]

    def _predictions(self, slots: list[int], rows: Rows, made: Modelled, report: Report) -> list[bytes]:
        text, model = self.live.text_of, self.job.model
        labels = np.flatnonzero(np.isfinite(rows.L).all(axis=1))
        if len(labels):
            report.labels += len(labels)
            newest = int(labels[-1])
            stamp = self.records[int(rows.owner[newest])].timestamp / 1000.0
            report.label_delay = stamp - float(rows.times[newest])
        n = len(slots)
        smoothed: list[Any] = [None] * n
        labelled: list[Any] = [None] * n
        if made.said is None:
            y_hats, scores, ys, known = _numbers(made.out.prediction), [None] * n, _numbers(rows.L), [0] * n
            squares = ((made.out.prediction - rows.L) ** 2).mean(axis=1)
            apart = squares[np.isfinite(squares)]  # NaN: no label, or nothing said yet
            report.measured += len(apart)
            report.squared += float(apart.sum())
        else:
            y_hats, ys = self._classes(slots, rows, made.said)
            columns, known = made.said.chosen.tolist(), made.said.known.tolist()
            scores = _of_column(made.out.prediction, columns)
            if made.said.smoothed is not None:
                smoothed = _of_column(made.said.smoothed, columns)
            labelled = self._labelled(slots, made.said.labelled)
            report.wrong += sum(
                [y is not None and y_hat is not None and y != y_hat for y, y_hat in zip(ys, y_hats, strict=True)]
            )
        alarms = (made.drift[0].found[:, 1] > 0).tolist() if made.drift else [None] * n
        shares = [None] * n if made.share is None else made.share.tolist()
        places = (slots, rows.times.tolist(), made.seq.tolist())
        scored = (y_hats, scores, smoothed, ys, made.out.ls_error.tolist(), alarms)
        return [
            _json(Prediction(text[s], t, q, model, y_hat, score, smooth, y, e, alarm, seen, k, own, _head(share), share))
            for s, t, q, y_hat, score, smooth, y, e, alarm, seen, k, own, share in zip(
                *places, *scored, made.seen.tolist(), known, labelled, shares, strict=True
            )
        ]

    def _classes(self, slots: list[int], rows: Rows, said: Said) -> tuple[list[str | None], list[str | None]]:
        """Names of the classes said and of the true ones; None where there is none."""
        y_hats: list[str | None] = []
        ys: list[str | None] = []
        for slot, column, truth in zip(slots, said.chosen.tolist(), rows.L[:, 0].tolist(), strict=True):
            names = self.live.names[0 if self.live.pooled else slot]
            y_hats.append(None if column < 0 else names[column])
            ys.append(None if math.isnan(truth) else names[int(truth)])
        return y_hats, ys

    def _labelled(self, slots: list[int], labelled: Array) -> list[list[str]]:
        """Names of the classes labelled so far; a key's rows mostly share one list."""
        lists: dict[tuple[int, bytes], list[str]] = {}
        found = []
        for n, slot in enumerate(slots):
            which = labelled[n].tobytes()
            held = lists.get((slot, which))
            if held is None:
                names = self.live.names[0 if self.live.pooled else slot]
                held = lists[slot, which] = [names[c] for c, is_known in enumerate(which) if is_known]
            found.append(held)
        return found

    def _drift(self, slots: list[int], rows: Rows, made: Modelled) -> list[bytes]:
        drift = self.job.settings.drift
        assert drift is not None
        own, *controls = zip(self.job.watches, made.drift, strict=True)
        text = self.live.text_of
        names = self.job.model, named(drift.detector)[0], own[0].name, drift.watch
        beside: list[dict[str, Beside]] = [{} for _ in slots] if controls else [_NO_CONTROLS] * len(slots)
        for watch, seen in controls:
            for one, value, (statistic, alarm, *_) in zip(beside, seen.value.tolist(), seen.found.tolist(), strict=True):
                one[watch.name] = Beside(value, statistic, alarm > 0)
        columns = (
            slots,
            rows.times.tolist(),
            made.seq.tolist(),
            own[1].value.tolist(),
            own[1].found.tolist(),
            made.seen.tolist(),
            beside,
        )
        return [
            _json(Drift(text[s], t, q, *names, v, d[0], d[1] > 0, d[2], d[3], c, b))
            for s, t, q, v, d, c, b in zip(*columns, strict=True)
        ]

    def _spanned(self, rows: Rows, errors: Array, report: Report) -> None:
        known = np.flatnonzero(np.isfinite(errors))
        if not len(known):
            return
        of_known = errors[known]
        report.ls_errors += of_known.tolist()
        self.live.told.errors[rows.slots[known]] = of_known  # of a key's rows the last one stays
        worst = int(known[of_known.argmax()])
        if report.worst is None or errors[worst] > report.worst.ls_error:
            key = self.records[int(rows.owner[worst])].key or b""
            digest = blake2b(key, digest_size=8).hexdigest()
            report.worst = Worst(float(errors[worst]), digest, float(rows.times[worst]))

    def _count(self, rows: Rows, made: Modelled, report: Report) -> None:
        told = self.live.told
        report.rows += len(rows.slots)
        self._spanned(rows, made.out.ls_error, report)
        if self.job.settings.head is not None or self.job.learner.kind == "features":
            told.features = made.out.features
        for index, (watch, seen) in enumerate(zip(self.job.watches, made.drift, strict=True)):
            at = seen.found[:, 1] > 0
            alarms = int(at.sum())
            if index == 0:
                report.drift_events += alarms
                if alarms:
                    told.alarmed[rows.slots[at]] = self.live.now
            else:
                report.control_events[watch.name] = report.control_events.get(watch.name, 0) + alarms
        newest = int(rows.times.argmax())
        if rows.times[newest] > report.newest_event:
            report.newest_event = float(rows.times[newest])
            report.newest_delay = self.records[int(rows.owner[newest])].timestamp / 1000.0 - report.newest_event


def _numbers(rows: Array) -> list[Any]:
    """A regression's number, or numbers, per row; what is unknown is encoded as null."""
    return rows[:, 0].tolist() if rows.shape[1] == 1 else rows.tolist()  # type: ignore[no-any-return]


def _of_column(scores: Array, columns: list[int]) -> list[Any]:
    """Each row's score of its class; None without one."""
    return [None if column < 0 else row[column] for row, column in zip(scores.tolist(), columns, strict=True)]


def _head(share: float | None) -> str | None:
    if share is None or math.isnan(share):
        return None
    return "adapted" if share > 0.5 else "frozen"
