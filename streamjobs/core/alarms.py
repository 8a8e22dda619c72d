"""Alarms as records: one when an alarm is raised, one when it ends, each with all that is known of it.

Both have the id of the alarm. It is a hash of the key, the record and the row that raised it, so a record that is applied
again raises the same alarm, and no other one.
"""

import math
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b

import msgspec
import numpy as np

from algorithms.common.protocol import Array
from algorithms.drift.column_chart import CHART_NAMES
from algorithms.drift.report import (
    AFTER,
    BEFORE,
    CHART,
    COLUMN,
    FIRST_COLUMN,
    NAMED,
    OF_COLUMN,
    REFERENCE,
    SHIFT,
    SINCE,
    SPREAD,
    STATISTIC,
    USUAL,
)
from streamjobs.core.identities import identities
from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Record
from streamjobs.core.state.live import Live
from streamjobs.stages.alarms import CHANGED, START, VERDICT, WATCHED, Alarms, Event
from streamjobs.stages.names import ALARMS
from streamjobs.stages.rows import Rows, Watched

ID_BYTES = 7  # an id fits into a state's integers
OPEN = "open"


class Moved(msgspec.Struct):
    """A column whose mean moved."""

    column: str
    deviations: float  # how far; below 0: it fell
    before: float  # its mean while the detector learned, in its own units
    after: float  # its mean in the newest rows; at most 8 deviations from `before`


class Alarm(msgspec.Struct):
    """A record of the alarms topic: an alarm that is raised, and the same one when it ends."""

    id: str  # of the alarm, the same in both records and after every crash
    key: str  # the record's, as text: whose alarm it is
    start: float  # event time of the row that raised it, seconds since 1970
    end: float | str  # event time of the row that ended it; "open" while it lasts
    outcome: str | None  # recovered: back to what it was; learned anew: it lasted, and is the new reference; null while open
    since: float | None  # estimated event time of the change; null where the detector estimates none
    rows: int | None  # from the change to the alarm
    columns: list[Moved]  # those that moved most, at most 3; empty where one number is watched, or no mean moved
    watch: str  # what is watched: columns, ls_error or loss
    extractor: str  # the learner whose error is watched; columns where columns are
    detector: str
    chart: str | None  # of columns, what changed: mean, whitened mean, whitened row; else null
    before: float | None  # mean of the watched number in the reference
    after: float | None  # its mean since the change
    size: float | None  # after / before
    evidence: float  # how sure: 1 is reached once in as many rows as false_alarms states while nothing changes
    false_alarms: str | None  # what the job states, null where it states nothing
    reference: int | None  # rows before the change that the newest are compared with
    warm_up: int  # rows of the key that the detector had learned before
    model: str


def events_of(
    job: Job, live: Live, records: Sequence[Record], slots: Array, rows: Rows, watched: Sequence[Watched]
) -> list[Event]:
    """Alarms that the rows raise or end; none where the job has no topic of them."""
    stage = job.optional_stage(ALARMS, Alarms)
    if stage is None:
        return []

    @cache
    def of_rows() -> list[bytes]:
        return identities(records, rows.owner)

    def identify(row: int, watch: int) -> int:
        key = records[int(rows.owner[row])].key or b""
        text = b"%s %s" % (_of_watch(of_rows()[row], job, watch), key)
        return int.from_bytes(blake2b(text, digest_size=ID_BYTES).digest()) or 1

    verdicts = [one.verdict for one in watched[: stage.watches]]
    return stage.advance(live.work[ALARMS], slots, rows.times, verdicts, rows.learn, identify)


def encoded(job: Job, live: Live, records: Sequence[Record], rows: Rows, events: Sequence[Event]) -> list[Output]:
    """A record for each event."""
    if not events:
        return []
    of_rows = identities(records, rows.owner)
    outputs = []
    for event in events:
        text, time = live.text_of[rows.slots[event.row]], float(rows.times[event.row])
        value = msgspec.json.encode(_alarm(job, text, time, event))
        headers = [("streamjobs-id", _of_watch(of_rows[event.row], job, event.watch) + (b"-end" if event.outcome else b""))]
        key = records[int(rows.owner[event.row])].key
        outputs.append(Output("alarms", key, value, int(np.rint(time * 1000.0)), headers))
    return outputs


def _of_watch(identity: bytes, job: Job, watch: int) -> bytes:
    """Where a job has several watches, a row may raise an alarm of each."""
    return identity


def _alarm(job: Job, key: str, time: float, event: Event) -> Alarm:
    drift, watch = job.settings.drift, job.watches[event.watch]
    assert drift is not None
    told, verdict = event.told, event.told[VERDICT:]
    before, after = _number(verdict[BEFORE]), _number(verdict[AFTER])
    chart = _whole(verdict[CHART])
    return Alarm(
        id=f"{event.id:0{2 * ID_BYTES}x}",
        key=key,
        start=float(told[START]),
        end=time if event.outcome else OPEN,
        outcome=event.outcome,
        since=_number(told[CHANGED]),
        rows=_whole(verdict[SINCE]),
        columns=_moved(job.composition.columns, verdict),
        watch=drift.watch,
        extractor=watch.name,
        detector=type(watch.detector).name,
        chart=None if chart is None else CHART_NAMES[chart],
        before=before,
        after=after,
        size=None if before is None or after is None or before <= 0 else after / before,
        evidence=float(verdict[STATISTIC]),
        false_alarms=drift.false_alarms,
        reference=_whole(verdict[REFERENCE]),
        warm_up=int(told[WATCHED]),
        model=job.model,
    )


def _moved(names: Sequence[str], verdict: Array) -> list[Moved]:
    moved = []
    for named in verdict[FIRST_COLUMN:].reshape(NAMED, OF_COLUMN).tolist():
        if math.isfinite(named[COLUMN]):
            after = named[USUAL] + named[SHIFT] * named[SPREAD]
            moved.append(Moved(names[int(named[COLUMN])], named[SHIFT], named[USUAL], after))
    return moved


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None
