"""`advance`: a batch of records through every stage of their keys. Its only effect is on `live`.

Each stage takes the whole batch in one compiled call, in record order. That equals record by record because no stage
of a key depends on a later one; a batch and its records one by one give the same bits (tests hold it).
"""

from collections.abc import Sequence

import numpy as np

from algorithms.common.protocol import LEARN, Array, Outputs, unknown
from streamjobs.core.admit import admit
from streamjobs.core.careful import Guarded, careful
from streamjobs.core.decoding.records import untimed
from streamjobs.core.drift import Seen, watch_drift
from streamjobs.core.encode import Encoder
from streamjobs.core.identities import identities
from streamjobs.core.job import Job
from streamjobs.core.messages import MOST_SHOWN, Advanced, Output, Record, Report, dead_letter, letter_shown
from streamjobs.core.model import choose, remember_choices, run_learners
from streamjobs.core.state.live import Live
from streamjobs.errors import RecordError
from streamjobs.stages.class_counts import ClassCounts
from streamjobs.stages.clip_targets import ClipTargets
from streamjobs.stages.fill import SKIPPED, TAKEN, UNFILLED, Fill
from streamjobs.stages.idle import AWAKE, Idle
from streamjobs.stages.late_labels import LateLabels, Matched
from streamjobs.stages.names import CLASS_COUNTS, CLIP, FILL, IDLE, ORDER, SENSORS
from streamjobs.stages.order import DUPLICATE, LATE, Order
from streamjobs.stages.rows import Modelled, Rows, picked
from streamjobs.stages.sensors import LATE as TOO_LATE
from streamjobs.stages.sensors import Sensors
from streamjobs.stages.windows import Windows


def advance(job: Job, live: Live, records: Sequence[Record]) -> Advanced:
    """Apply records (of one partition, in order) to the live states; gives what to send and what happened.

    A record at or below its key's last applied offset is skipped. A record that cannot be used becomes a dead letter
    (sink "dlq") and changes nothing; so does one for which a stage raises an error (`careful`). Raises SnapshotError when a
    key's stored bytes cannot be trusted, SetupError when a key comes on a partition that is not its own.
    """
    return careful(job, live, job.keyed(records), _apply)


def _apply(job: Job, live: Live, records: Sequence[Record], left_out: bool = False) -> Advanced:
    """left_out: rows are there, but no learner sees them, and nothing is said of them. Raises StageError."""
    report = Report()
    outputs: list[Output] = []
    report.records = len(records)
    report.bytes = sum(len(record.value) for record in records if record.value is not None)
    with Guarded(job, "decode"):
        decoded = job.decode(records)
        without_time = untimed(records, job.settings.source)
    letters = list(decoded.errors)
    for reason, count in decoded.skipped.items():
        _count(report, reason, count)
    at, created, left, expired, loaded = 0, live.created, live.left, live.expired, live.loaded
    while at < len(decoded.owner):
        live.tick()
        at, rows, alone = admit(job, live, records, decoded, at, letters, report)
        samples = rows if alone is None else picked(rows, ~alone)
        report.samples += len(samples.slots)
        with Guarded(job, "stages"):
            samples, total = _fill(job, live, samples, report)
            samples = _align(job, live, records, samples, letters, report)
            came = _run_signal(job, live, records, samples, without_time, letters, report)
            labels = picked(rows, slice(0) if alone is None else alone)
            now, met = _match_labels(job, live, records, came, labels, letters, report)
            if left_out:
                now = now._replace(X=unknown(now.X.shape))
            made = _run_model(job, live, records, came, now, met, report) if len(now.slots) else None
            if total is not None and made is not None and len(came.slots) and not left_out:
                filled = job.stage(FILL, Fill).tell(live.work[FILL], came.slots, total[came.owner])
                made = made._replace(filled=filled)
        if made is not None and len(came.slots) and not left_out:
            with Guarded(job, "encode"):
                Encoder(job, live, records).add(came, made, outputs, report)
    for index, error in sorted(letters, key=lambda letter: letter[0]):
        report.dead_lettered[error.reason] = report.dead_lettered.get(error.reason, 0) + 1
        if not report.first_letter:
            record = records[index]
            report.first_letter = f"{error.reason}, topic {record.topic}[{record.partition}] offset {record.offset}"
        if len(report.letters) < MOST_SHOWN:
            report.letters.append(letter_shown(records[index], error))
        outputs.append(dead_letter(records[index], error))
    report.keys_created = live.created - created
    report.keys_evicted = live.left - left
    report.states_read = live.loaded - loaded
    report.keys_expired = live.expired - expired
    return Advanced(outputs, report)


def _fill(job: Job, live: Live, rows: Rows, report: Report) -> tuple[Rows, Array | None]:
    """Samples whose numbers are all there, and how many of its key's had been filled up to each record.

    (records,) int64; None where none may be missing.
    """
    fill = job.optional_stage(FILL, Fill)
    if fill is None:
        return rows, None
    made = fill.advance(live.work[FILL], rows.slots, rows.times, rows.X)
    total = np.zeros(int(rows.owner.max(initial=-1)) + 1, np.int64)
    total[rows.owner] = made.total  # of a record's samples the last one stays
    taken = made.verdict == TAKEN
    lacking = np.isnan(rows.X)
    report.filled += int(lacking[taken].sum())
    if lacking.any():
        names = job.composition.settings.source.column_names(job.dim)
        for column in np.flatnonzero(lacking.any(axis=0)).tolist():
            name, count = names[column], int(lacking[:, column].sum())
            report.lacking[name] = report.lacking.get(name, 0) + count
    _count(report, "missing", int((made.verdict == SKIPPED).sum()))
    _count(report, "unfilled", int((made.verdict == UNFILLED).sum()))
    return picked(rows._replace(X=made.X), taken), total


def _align(
    job: Job, live: Live, records: Sequence[Record], rows: Rows, letters: list[tuple[int, RecordError]], report: Report
) -> Rows:
    """Samples of one sensor each in, samples of all sensors out."""
    sensors = job.optional_stage(SENSORS, Sensors)
    if sensors is None:
        return rows
    made = sensors.advance(live.work[SENSORS], rows.slots, rows.times, rows.X, rows.L, rows.owner)
    for reason, count in made.skipped.items():
        _count(report, reason, count)
    for name, came, gaps in zip(sensors.names, made.samples.tolist(), made.gaps.tolist(), strict=True):
        if came:
            report.sensor_samples[name] = report.sensor_samples.get(name, 0) + came
        if gaps:
            report.sensor_gaps[name] = report.sensor_gaps.get(name, 0) + gaps
    if job.settings.source.late == "dlq":
        for index in dict.fromkeys(rows.owner[made.verdict == TOO_LATE].tolist()):
            letters.append((index, RecordError("late", _late(records[index]), SENSORS)))
    return Rows(made.slots, made.times, made.X, made.L, made.owner, made.learn)


def _run_signal(
    job: Job,
    live: Live,
    records: Sequence[Record],
    rows: Rows,
    without_time: Array,
    letters: list[tuple[int, RecordError]],
    report: Report,
) -> Rows:
    """Event-time order and windows: samples in, rows for the learner out."""
    order, of_rows = job.stage(ORDER, Order), without_time[rows.owner]
    ordered = order.advance(live.work[ORDER], rows.slots, rows.times, rows.X, rows.L, rows.owner, of_rows)
    late = ordered.verdict == LATE
    if late.any() and order.policy in ("drop", "dlq"):
        _count(report, "late", int(late.sum()))
        if order.policy == "dlq":
            for index in dict.fromkeys(rows.owner[late].tolist()):
                letters.append((index, RecordError("late", _late(records[index]), "order")))
    repeated = int((ordered.verdict == DUPLICATE).sum())
    if repeated and order.duplicates == "drop":
        _count(report, "duplicate", repeated)
    now = Rows(ordered.slots, ordered.times, ordered.X, ordered.L, ordered.owner, ordered.learn)
    idle = job.optional_stage(IDLE, Idle)
    if idle is not None:
        idle.advance(live.work[IDLE], now.slots, now.X, now.learn)
    windows = job.optional_stage("windows", Windows)
    if windows is None:
        return _mark_awake(now, idle is not None)
    signal = now.slots, now.times, now.X, now.L, now.owner, now.learn
    made = windows.advance(live.work["windows"], *signal, ordered.untimed)
    for reason, count in made.skipped.items():
        _count(report, reason, count)
    return _mark_awake(Rows(made.slots, made.times, made.X, made.L, made.owner, made.learn), idle is not None)


def _mark_awake(rows: Rows, marked: bool) -> Rows:
    """The rows with the bit of idle samples taken out of `learn`."""
    return rows._replace(learn=rows.learn & LEARN, awake=rows.learn >= AWAKE) if marked else rows


def _late(record: Record) -> str:
    return (
        f"topic {record.topic}[{record.partition}] offset {record.offset}: expected samples newer than the key's "
        "newest applied one less the allowed lateness, got an older one."
    )


def _count(report: Report, reason: str, count: int) -> None:
    if count:
        report.skipped[reason] = report.skipped.get(reason, 0) + count


def _match_labels(
    job: Job,
    live: Live,
    records: Sequence[Record],
    came: Rows,
    labels: Rows,
    letters: list[tuple[int, RecordError]],
    report: Report,
) -> tuple[Rows, Matched | None]:
    """Rows that came and, between them, those that a late label lets learn."""
    waiting = job.optional_stage("waiting", LateLabels)
    if waiting is None:
        return came, None
    met = waiting.advance(live.work["waiting"], came, labels)
    for reason, count in met.skipped.items():
        _count(report, reason, count)
    missed = labels.owner[met.missed]
    useful = set(labels.owner[~met.missed].tolist())
    for index in dict.fromkeys(missed.tolist()):
        if index in useful:
            _count(report, "unmatched_label", int((missed == index).sum()))
        else:
            letters.append((index, RecordError("unmatched_label", _unmatched(records[index], waiting), "waiting")))
    return met.rows, met


def _unmatched(record: Record, waiting: LateLabels) -> str:
    return (
        f"topic {record.topic}[{record.partition}] offset {record.offset}: expected a label within {waiting.within:g} s of "
        f"the time of a row that waits for one (for {waiting.wait:g} s, {waiting.most} of a key at most), met none."
    )


def _run_model(
    job: Job, live: Live, records: Sequence[Record], came: Rows, now: Rows, met: Matched | None, report: Report
) -> Modelled:
    """Scaling, learner, drift, alarms and class counts over the rows `now`; gives what was made of those that `came`."""
    slots = np.zeros(len(now.slots), np.int64) if live.pooled else now.slots
    clip = job.optional_stage(CLIP, ClipTargets)
    if clip is not None:
        learned, clipped = clip.advance(live.work[CLIP], now.slots, now.L, now.learn)
        now = now._replace(L=learned)
        report.targets_clipped += clipped
    scaled, out, share = run_learners(job, live, slots, now)
    choice = choose(job, live, slots, now, scaled, out.prediction) if job.task == "classification" else None
    if met is not None:
        remember_choices(job, live, now, met, choice, report)
        own = met.source >= 0
        slots, scaled, out = slots[own], scaled[own], Outputs(*(array[own] for array in out))
        share, choice = None if share is None else share[own], None if choice is None else choice.of(own)
    ids = identities(records, came.owner)
    drift, events = watch_drift(job, live, records, Seen(slots, scaled, came, out), ids)
    seq, seen = job.stage(CLASS_COUNTS, ClassCounts).number(live.work[CLASS_COUNTS], slots)
    return Modelled(out, drift, share, choice, seq, seen, ids, events)
