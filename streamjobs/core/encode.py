"""What leaves for every row: features, predictions and drift as JSON.

A number that does not exist (yet) is null. Every output carries `streamjobs-id`: topic-partition-offset of the record
that caused it, with -i behind it where one record gave several rows; readers drop repeats by it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import compress, repeat
from typing import Any

import msgspec
import numpy as np

from algorithms.common.protocol import Array
from algorithms.drift.report import (
    AFTER,
    ALARM,
    BEFORE,
    COLUMNS,
    FIRST_COLUMN,
    FIRST_SHIFT,
    OF_COLUMN,
    OPEN,
    P_VALUE,
    READY,
    SINCE,
    WIDE_COLUMNS,
)
from streamjobs.core import alarms
from streamjobs.core.identities import identities
from streamjobs.core.job import Job
from streamjobs.core.messages import MOST_SHOWN, BatchRows, Output, Record, Report, ShownAlarm, Worst
from streamjobs.core.state.live import Live
from streamjobs.settings.composition import Watch
from streamjobs.stages.rows import Modelled, Rows, Watched

_lines = msgspec.json.Encoder().encode_lines
_NOTHING = repeat(None)
_made = partial(tuple.__new__, Output)  # of a tuple of its fields; a fourth of the time of Output(...)
_NO_CONTROLS: dict[str, Any] = {}
SMALL_P = 0.01  # a p-value below it is as frequent while nothing changes
_NO_COLUMNS: dict[str, float] = {}


class Features(msgspec.Struct):
    """A record of the features topic."""

    key: str
    ts: float  # event time, seconds since 1970; of a window its end
    seq: int  # number of this row within its key, from 0
    model: str
    z: list[float]  # features of x, before x was learned
    ls_error: float  # squared distance of phi(x) to what the model spans, before x was learned
    n_seen: int  # rows the learner had seen before this one (a warm start's included)
    filled: int | msgspec.UnsetType = msgspec.UNSET  # missing numbers filled since the key's row before


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
    filled: int | msgspec.UnsetType = msgspec.UNSET  # missing numbers filled in since the row before


class Beside(msgspec.Struct):
    """What the same detector says of a control, or a further watch's own."""

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
    filled: int | msgspec.UnsetType = msgspec.UNSET
    beside: dict[str, Beside] = {}  # by control, or by further watch; absent without any
    warming_up: bool = False  # of detectors that keep a number of false alarms: they say nothing yet; absent afterwards
    open: bool = False  # this row raised an alarm, or one is not over; absent while none is
    since: int | None = None  # in an alarm: rows from the estimated change to this one; absent else, as what follows
    columns: dict[str, float] = {}  # in an alarm of columns: those that moved most, by how many deviations


class Encoder:
    """Turns modelled rows into outputs, each sink's in row order; what a job does not send is not encoded."""

    def __init__(self, job: Job, live: Live, records: Sequence[Record]) -> None:
        self.job, self.live, self.records = job, live, records

    def add(self, rows: Rows, made: Modelled, outputs: list[Output], report: Report) -> None:
        """Append the rows' outputs, sink by sink, and count them in the report."""
        slots, owners = rows.slots.tolist(), rows.owner.tolist()
        texts = [self.live.text_of[slot] for slot in slots]
        report.batches.append(BatchRows(texts, rows.times, made.out.ls_error))
        sinks: list[tuple[str, list[bytes]]] = []
        if "features" in self.job.sinks:
            sinks.append(("features", self._features(texts, rows, made)))
        if "predictions" in self.job.sinks:
            sinks.append(("predictions", self._predictions(slots, texts, rows, made, report)))
        if "drift" in self.job.sinks:
            sinks.append(("drift", self._drift(texts, rows, made)))
        stamps = np.rint(rows.times * 1000.0).astype(np.int64).tolist()
        keys = [self.records[owner].key for owner in owners]
        headers = [[("streamjobs-id", identity)] for identity in identities(self.records, rows.owner)]
        for sink, values in sinks:
            outputs += map(_made, zip(repeat(sink), keys, values, stamps, headers, strict=False))
        outputs += alarms.encoded(self.job, self.live, self.records, rows, made.events)
        self._count(rows, made, report)
        for watch, seen in zip(self.job.watches, made.drift, strict=True):
            if not watch.control and len(report.alarms) < MOST_SHOWN:
                report.alarms += self._alarms(texts, rows, watch, seen)

    def _alarms(self, texts: list[str], rows: Rows, watch: Watch, seen: Watched) -> list[ShownAlarm]:
        """The first alarms of a watch, for the worker's page."""
        names, told = (type(watch.detector).name, watch.watch), []
        for row in np.flatnonzero(seen.verdict[:, ALARM] > 0)[:MOST_SHOWN].tolist():
            verdict = seen.verdict[row]
            figures = float(seen.value[row]), float(verdict[BEFORE]), float(verdict[AFTER])
            told.append(ShownAlarm(texts[row], float(rows.times[row]), *names, *figures, self._moved(verdict)))
        return told

    def _features(self, texts: list[str], rows: Rows, made: Modelled) -> list[bytes]:
        places = texts, rows.times.tolist(), made.seq.tolist(), repeat(self.job.model)
        filled = () if made.filled is None else (made.filled.tolist(),)
        return _encoded(
            Features, *places, made.out.features.tolist(), made.out.ls_error.tolist(), made.seen.tolist(), *filled
        )

    def _predictions(self, slots: list[int], texts: list[str], rows: Rows, made: Modelled, report: Report) -> list[bytes]:
        labels = np.flatnonzero(np.isfinite(rows.L).all(axis=1))
        if len(labels):
            report.labels += len(labels)
            newest = int(labels[-1])
            stamp = self.records[int(rows.owner[newest])].timestamp / 1000.0
            report.label_delay = stamp - float(rows.times[newest])
        scores: Iterable[Any] = _NOTHING
        smoothed: Iterable[Any] = _NOTHING
        labelled: Iterable[Any] = _NOTHING
        known: Iterable[int] = repeat(0)
        if made.said is None:
            y_hats, ys = _numbers(made.out.prediction), _numbers(rows.L)
            with np.errstate(over="ignore"):  # a prediction far out is no measure either
                squares = ((made.out.prediction - rows.L) ** 2).mean(axis=1)
            apart = squares[np.isfinite(squares)]  # NaN: no label, or nothing said yet
            report.measured += len(apart)
            report.squared += float(apart.sum())
        else:
            said = made.said
            truth = np.where(np.isfinite(rows.L[:, 0]), rows.L[:, 0], -1.0).astype(np.int64)
            y_hats, ys = self._named(slots, said.chosen), self._named(slots, truth)
            scores, known = _of_column(made.out.prediction, said.chosen), said.known.tolist()
            if said.smoothed is not None:
                smoothed = _of_column(said.smoothed, said.chosen)
            labelled = self._labelled(rows.slots, said.labelled)
            report.wrong += int(((truth >= 0) & (said.chosen >= 0) & (truth != said.chosen)).sum())
        report.batches[-1] = report.batches[-1]._replace(predicted=y_hats, labels=ys)
        own = [seen.verdict[:, 1] > 0 for watch, seen in zip(self.job.watches, made.drift, strict=True) if not watch.control]
        alarmed: Iterable[Any] = np.logical_or.reduce(own).tolist() if own else _NOTHING
        shares: Iterable[Any] = _NOTHING if made.share is None else made.share.tolist()
        heads: Iterable[Any] = _NOTHING if made.share is None else map(_head, made.share.tolist())
        places = texts, rows.times.tolist(), made.seq.tolist(), repeat(self.job.model)
        scored = y_hats, scores, smoothed, ys, made.out.ls_error.tolist(), alarmed, made.seen.tolist()
        filled = () if made.filled is None else (made.filled.tolist(),)
        return _encoded(Prediction, *places, *scored, known, labelled, heads, shares, *filled)

    def _named(self, slots: list[int], columns: Array) -> list[str | None]:
        """Names of the classes of these columns; None where there is none."""
        names, pooled = self.live.names, self.live.pooled
        return [
            None if column < 0 else names[0 if pooled else slot][column]
            for slot, column in zip(slots, columns.tolist(), strict=True)
        ]

    def _labelled(self, slots: Array, labelled: Array) -> list[list[str]]:
        """Names of the classes labelled so far; rows of a key with the same ones share a list."""
        names, place, first = self.live.names, slots, np.arange(len(slots))
        for at in range(0, labelled.shape[1], 32):  # rows of one key with the same classes get the same number
            some = labelled[:, at : at + 32]
            bits = some @ (1 << np.arange(some.shape[1]))
            _, first, place = np.unique((place << 32) | bits, return_index=True, return_inverse=True)
        of_places = slots[first] * (not self.live.pooled)
        lists = [list(compress(names[s], w)) for s, w in zip(of_places.tolist(), labelled[first].tolist(), strict=True)]
        return [lists[number] for number in place.tolist()]

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
        if verdict.shape[1] <= COLUMNS:
            return _encoded(Drift, *places, *names, own[1].value.tolist(), *judged, made.seen.tolist(), filled, beside)
        more = (verdict[:, READY] == 0).tolist(), (verdict[:, OPEN] > 0).tolist(), map(_whole, verdict[:, SINCE].tolist())
        moved = map(self._moved, verdict)
        return _encoded(
            Drift, *places, *names, own[1].value.tolist(), *judged, made.seen.tolist(), filled, beside, *more, moved
        )

    def _moved(self, verdict: Array) -> dict[str, float]:
        """Names of the columns that an alarm names, by how far they moved."""
        if verdict.size < WIDE_COLUMNS or not verdict[ALARM] > 0:
            return _NO_COLUMNS
        names = self.job.composition.columns
        named = zip(verdict[FIRST_COLUMN::OF_COLUMN].tolist(), verdict[FIRST_SHIFT::OF_COLUMN].tolist(), strict=True)
        return {names[int(column)]: shift for column, shift in named if math.isfinite(column)}

    def _spanned(self, rows: Rows, errors: Array, report: Report) -> None:
        known = np.flatnonzero(np.isfinite(errors))
        if not len(known):
            return
        of_known = errors[known]
        report.ls_errors += of_known.tolist()
        self.live.latest.errors[rows.slots[known]] = of_known  # of a key's rows the last one stays
        worst = int(known[of_known.argmax()])
        if report.worst is None or errors[worst] > report.worst.ls_error:
            key = self.records[int(rows.owner[worst])].key or b""
            digest = blake2b(key, digest_size=8).hexdigest()
            report.worst = Worst(float(errors[worst]), digest, float(rows.times[worst]))

    def _count(self, rows: Rows, made: Modelled, report: Report) -> None:
        latest = self.live.latest
        report.rows += len(rows.slots)
        self._spanned(rows, made.out.ls_error, report)
        if self.job.settings.head is not None or self.job.learner.kind == "features":
            latest.features = made.out.features
        for watch, seen in zip(self.job.watches, made.drift, strict=True):
            at = seen.verdict[:, 1] > 0
            alarms = int(at.sum())
            if not watch.control:
                report.drift_events += alarms
                if seen.verdict.shape[1] > COLUMNS:
                    self._calibrate(watch.watch, rows.slots, seen.verdict, report)
                report.watch_events[watch.watch] = report.watch_events.get(watch.watch, 0) + alarms
                if alarms:
                    latest.alarmed[rows.slots[at]] = self.live.now
            else:
                report.control_events[watch.name] = report.control_events.get(watch.name, 0) + alarms
        newest = int(rows.times.argmax())
        if rows.times[newest] > report.newest_event:
            report.newest_event = float(rows.times[newest])
            report.newest_delay = self.records[int(rows.owner[newest])].timestamp / 1000.0 - report.newest_event

    def _calibrate(self, watch: str, slots: Array, verdict: Array, report: Report) -> None:
        """Count the p-values of rows without an open alarm, and remember which keys warm up."""
        p = verdict[verdict[:, OPEN] == 0, P_VALUE]
        counts = report.p_values.setdefault(watch, [0, 0])
        counts[0] += int((p < 1.0).sum())  # 1: no block was judged
        counts[1] += int((p < SMALL_P).sum())
        warming, latest = verdict[:, READY] == 0, self.live.latest.warming
        latest[slots] = warming if watch == self.job.watches[0].watch else warming | latest[slots]


def _numbers(rows: Array) -> list[Any]:
    """A regression's number, or numbers, per row; what is unknown is encoded as null."""
    return rows[:, 0].tolist() if rows.shape[1] == 1 else rows.tolist()  # type: ignore[no-any-return]


def _of_column(scores: Array, columns: Array) -> list[Any]:
    """Each row's score of its class; None without one."""
    if not scores.size:
        return [None] * len(columns)
    of_rows: list[Any] = scores[np.arange(len(columns)), columns].tolist()
    if columns.min() < 0:
        for row in np.flatnonzero(columns < 0).tolist():
            of_rows[row] = None
    return of_rows


def _encoded(shape: Callable[..., msgspec.Struct], *fields: Iterable[Any]) -> list[bytes]:
    """JSON of the structs made of the fields' columns; one call for all of them, in which no line break is a text's."""
    return _lines(list(map(shape, *fields))).split(b"\n")[:-1]


def _whole(rows: float) -> int | None:
    return int(rows) if math.isfinite(rows) else None


def _head(share: float | None) -> str | None:
    if share is None or math.isnan(share):
        return None
    return "adapted" if share > 0.5 else "frozen"
