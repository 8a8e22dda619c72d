"""Alarms as records: one when an alarm is raised, one when it ends, each with all that is known of it.

Both have the id of the alarm. It is a hash of the key, the record and the row that raised it, so a record that is applied
again raises the same alarm, and no other one.
"""

import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from operator import itemgetter

import msgspec
import numpy as np

from algorithms.common.protocol import Array
from algorithms.drift import report
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Output, Record, ShownAlarm
from streamjobs.core.output_records import Alarm, Moved, output_headers
from streamjobs.stages.alarms import CHANGED, START, VERDICT, WARM_UP, WATCHED, Event
from streamjobs.stages.names import ALARMS
from streamjobs.stages.rows import Rows, Watched

ID_BYTES = 7  # an id fits into a state's integers
ROUNDING = 1e-14  # of the value before: what is left of it after a fall to 0


def events_of(
    job: Job,
    live: Live,
    records: Sequence[Record],
    slots: Array,
    rows: Rows,
    watched: Sequence[Watched],
    ids: Sequence[bytes],
) -> list[Event]:
    """Alarms that the rows of these ids raise or end; none where the job has no topic of them."""
    stage = job.steps.alarms
    if stage is None:
        return []

    def identify(row: int, watch: int) -> int:
        key = records[int(rows.owner[row])].key or b""
        text = b"%s %s" % (_of_watch(ids[row], job, watch), key)
        return int.from_bytes(blake2b(text, digest_size=ID_BYTES).digest()) or 1

    verdicts = [one.verdict for one in watched[: stage.watches]]
    return stage.advance(live.work[ALARMS], slots, rows.times, verdicts, rows.learn, identify)


def encoded(
    job: Job, live: Live, records: Sequence[Record], rows: Rows, ids: Sequence[bytes], events: Sequence[Event]
) -> list[Output]:
    """A record for each event of the rows of these ids."""
    outputs = []
    for event in events:
        text, time = live.text_of[rows.slots[event.row]], float(rows.times[event.row])
        value = msgspec.json.encode(_alarm(job, text, time, event))
        identity = _of_watch(ids[event.row], job, event.watch) + (b"-end" if event.outcome else b"")
        (headers,) = output_headers("alarms", [identity])
        key = records[int(rows.owner[event.row])].key
        outputs.append(Output("alarms", key, value, int(np.rint(time * 1000.0)), headers))
    return outputs


def in_order(
    sent: Iterable[tuple[int, Output]], rows: Rows, events: Sequence[Event], of_events: Iterable[Output]
) -> list[Output]:
    """Alarms of sensors (with the place of their record) and of rows, by record; of one record first the sensors'."""
    others = zip([int(rows.owner[event.row]) for event in events], of_events, strict=True)
    return [output for _, output in sorted([*sent, *others], key=itemgetter(0))]


def shown(
    job: Job, texts: Sequence[str], rows: Rows, watched: Sequence[Watched], events: Sequence[Event], most: int
) -> list[ShownAlarm]:
    """For the worker's page: the first `most` alarms that are raised, and the newest `most` that end."""
    raised = [event for event in events if event.outcome is None][:most]
    made = []
    for event in [*raised, *[event for event in events if event.outcome is not None][-most:]]:
        one = _shown(job, texts[event.row], event)
        if event.outcome is None:
            made.append(one._replace(value=float(watched[event.watch].value[event.row])))
        else:
            made.append(one._replace(end=float(rows.times[event.row]), outcome=event.outcome))
    return made


def open_now(job: Job, live: Live, most: int) -> tuple[int, list[ShownAlarm]]:
    """How many keys are in alarm, and the newest `most` open alarms, newest first.

    For the worker's page: read from the states by another thread, which may miss what changes meanwhile.
    """
    keys, opened = open_of_live(job, live, most)
    if not live.away:
        return keys, opened
    away = list(live.away.values())
    return keys + len(away), sorted([*opened, *away_alarms(away)], key=lambda one: -one.time)[:most]


def away_alarms(away: Iterable[list[ShownAlarm] | None]) -> Iterable[ShownAlarm]:
    """The alarms of `live.away` that were read."""
    return (one for of_key in away for one in of_key or ())


def open_of_live(job: Job, live: Live, most: int) -> tuple[int, list[ShownAlarm]]:
    """As `open_now`, of live keys alone."""
    if job.steps.alarms is None:
        return 0, []
    work, texts = live.work[ALARMS], live.text_of
    opened, details = work["opened"], work["details"]
    slots = live.live_slots()
    slots = slots[slots < min(len(opened), len(details))]
    at, watches = np.nonzero(opened[slots] > 0)
    newest = np.argsort(-details[slots[at], watches, START], kind="stable")[:most]
    found = zip(slots[at[newest]].tolist(), watches[newest].tolist(), strict=True)
    made = [_shown(job, texts[s], Event(-1, w, int(opened[s, w]), None, details[s, w].copy())) for s, w in found]
    return len(np.unique(at)), made


def _shown(job: Job, key: str, event: Event) -> ShownAlarm:
    watch, details, verdict = job.watches[event.watch], event.details, event.details[VERDICT:]
    name, figures = type(watch.detector).name, (float(verdict[report.BEFORE]), float(verdict[report.AFTER]))
    columns = shown_columns(job, verdict)
    since = float(details[CHANGED])
    return ShownAlarm(key, float(details[START]), name, watch.watch, math.nan, *figures, columns, _id(event), since)


def shown_columns(job: Job, verdict: Array) -> list[tuple[str, float, float, float]]:
    """Of a verdict the columns that moved: name, deviations, mean before, mean after; none of one number."""
    if verdict.size < report.WIDE_COLUMNS:
        return []
    return [(one.column, one.deviations, one.before, one.after) for one in _moved(job.composition.watched, verdict)]


def _id(event: Event) -> str:
    return f"{event.id:0{2 * ID_BYTES}x}"


def _of_watch(identity: bytes, job: Job, watch: int) -> bytes:
    """Where a job has several watches, a row may raise an alarm of each."""
    several = sum(not one.control for one in job.watches) > 1
    return b"%s-%s" % (identity, job.watches[watch].watch.encode()) if several else identity


def _alarm(job: Job, key: str, time: float, event: Event) -> Alarm:
    drift, watch = job.settings.drift, job.watches[event.watch]
    assert drift is not None
    details, verdict = event.details, event.details[VERDICT:]
    before, after = _number(verdict[report.BEFORE]), _number(verdict[report.AFTER])
    chart = _whole(verdict[report.CHART])
    return Alarm(
        id=_id(event),
        key=key,
        start=float(details[START]),
        open=not event.outcome,
        end=time if event.outcome else None,
        outcome=event.outcome,
        since=_number(details[CHANGED]),
        rows=_whole(verdict[report.SINCE]),
        columns=_moved(job.composition.watched, verdict),
        watch=watch.watch,
        extractor=watch.name,
        detector=type(watch.detector).name,
        chart=None if chart is None else report.CHART_NAMES[chart],
        before=before,
        after=after,
        size=None if before is None or after is None or before <= 0 else after / before,
        evidence=float(verdict[report.STATISTIC]),
        false_alarms=None if verdict[report.REFERENCE] < 0 else drift.false_alarms,
        reference=_whole(abs(verdict[report.REFERENCE])),
        warm_up=-1 - int(details[WARM_UP]) if details[WARM_UP] < 0 else None,
        rows_learned=int(details[WATCHED]),
        model=job.model,
    )


def _moved(names: Sequence[str], verdict: Array) -> list[Moved]:
    moved = []
    for named in verdict[report.FIRST_COLUMN :].reshape(report.NAMED, report.OF_COLUMN).tolist():
        if math.isfinite(named[report.COLUMN]):
            after = named[report.USUAL] + named[report.SHIFT] * named[report.SPREAD]
            after = 0.0 if abs(after) < ROUNDING * abs(named[report.USUAL]) else after
            moved.append(Moved(names[int(named[report.COLUMN])], named[report.SHIFT], named[report.USUAL], after))
    return moved


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None
