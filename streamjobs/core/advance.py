"""`advance`: a batch of records through every stage of their keys. Its only effect is on `live`.

Each stage takes the whole batch in one compiled call, in record order. That equals record by record because no stage
of a key depends on a later one; a batch and its records one by one give the same bits (tests hold it).
"""

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from algorithms.common.protocol import LEARN, Array, Outputs, unknown
from streamjobs.core.admit import admit
from streamjobs.core.careful import Guard, careful
from streamjobs.core.decoding.records import untimed
from streamjobs.core.drift import Seen, watch_drift
from streamjobs.core.encode import Encoder
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import ASIDE, Advanced, Output, Record, Report, add_letter, topic_of_life
from streamjobs.core.model import choose, remember_choices, run_learners
from streamjobs.core.unlearned import outside
from streamjobs.errors import RecordError
from streamjobs.stages import names as stage_names
from streamjobs.stages.fill import SKIPPED, TAKEN, UNFILLED, Fill
from streamjobs.stages.idle import AWAKE
from streamjobs.stages.late_labels import LateLabels, Matched
from streamjobs.stages.order import DUPLICATE, LATE
from streamjobs.stages.rows import Choice, Modelled, Rows, picked
from streamjobs.stages.sensors import LATE as TOO_LATE
from streamjobs.stages.sensors import Sensors

if TYPE_CHECKING:
    from streamjobs.core.sensor_alarms import Sent
    from streamjobs.stages.events.bouts import Bout


def advance(job: Job, live: Live, records: Sequence[Record]) -> Advanced:
    """Apply records (of one partition, in order) to the live states; gives what to send and what happened.

    A record at or below its key's last applied offset is skipped. A record that cannot be used becomes a dead letter
    (sink "dlq") and changes nothing; so does one for which a stage raises an error (`careful`). A key with a stored state
    that cannot be read is set aside (`core.live.aside`). Raises ForeignStateError when another job wrote the state,
    SetupError when a key comes on a partition that is not its own.
    """
    records = job.keyed(records)
    advanced = careful(job, live, records, _apply)
    if live.silence is not None and job.steps.silent is not None:
        from streamjobs.core.sensor_alarms import watch_silence

        advanced = watch_silence(job, live, records, advanced)
    if live.aside.verdicts:
        live.aside.pass_by(records)
    return live.aside.with_owed(advanced, job.life) if live.aside.new else advanced


def _apply(job: Job, live: Live, records: Sequence[Record], guard: Guard, left_out: bool = False) -> Advanced:
    """guard: gets what runs. left_out: rows pass the signal stages only, without learning and outputs."""
    report = Report(records=len(records), bytes=sum([len(record.value) for record in records if record.value is not None]))
    outputs: list[Output] = []
    created, left, expired, loaded = live.created, live.left, live.expired, live.loaded
    letters = _run(job, live, records, left_out, guard, outputs, report)
    passed = max(report.applied_before, default=-1)  # a state with it was written: the letters before were out then
    for index, error in sorted(letters, key=operator.itemgetter(0)):
        again = records[index].offset < passed and error.reason != ASIDE
        add_letter(records[index], error, job.life, outputs, report, again=again)
        live.log.letters.add(records[index].offset)
    report.keys_created = live.created - created
    report.keys_evicted = live.left - left
    report.states_read = live.loaded - loaded
    report.keys_expired = live.expired - expired
    return Advanced(outputs, report)


def _run(
    job: Job, live: Live, records: Sequence[Record], left_out: bool, guard: Guard, outputs: list[Output], report: Report
) -> list[tuple[int, RecordError]]:
    """The records through all stages, in parts that the live states have room for; gives those that cannot be used."""
    guard.part = "decode"
    decoded = job.decode(records)
    without_time = untimed(records, job.settings.source)
    letters, steps, at = list(decoded.errors), job.steps, 0
    for reason, count in decoded.skipped.items():
        _count(report, reason, count)
    owner, aside = decoded.owner, live.aside.meet(records) if live.aside.verdicts else None
    if aside is not None:
        decoded = decoded.without(aside)
    while at < len(decoded.owner):
        guard.part = None
        live.tick()
        at, rows, alone = admit(job, live, records, decoded, at, letters, report)
        samples = rows if alone is None else picked(rows, ~alone)
        report.samples += len(samples.slots)
        if live.silence is not None:
            owners, times = samples.owner.tolist(), samples.times.tolist()
            report.heard += [(records[index], time, False) for index, time in zip(owners, times, strict=True)]
        guard.part = "stages"
        total = None
        if steps.counters is not None:
            X, known = steps.counters.advance(live.work[stage_names.COUNTERS], samples.slots, samples.times, samples.X)
            _count(report, "reading", int((~known).sum()))
            samples = picked(samples._replace(X=X), known)  # with rates in place of readings
        if steps.fill is not None:
            samples, total = _fill(job, live, steps.fill, samples, report)
        if steps.sensors is not None:
            samples = _align(job, live, steps.sensors, records, samples, letters, report)
        sent: list[Sent] | None = None if left_out or steps.stuck is None else []
        came = _run_signal(job, live, records, samples, without_time, letters, report, sent)
        now, met = came, None
        if steps.waiting is not None:
            labels = picked(rows, slice(0) if alone is None else alone)
            met = _match_labels(live, steps.waiting, records, came, labels, letters, report)
            now = met.rows
        if left_out:
            now = now._replace(X=unknown(now.X.shape))
        made = _run_model(job, live, records, came, now, met, report, left_out) if len(now.slots) else None
        if made is None or not len(came.slots) or left_out:
            outputs += [output for _, output in sent or ()]
            continue
        if steps.fill is not None and total is not None:
            made = made._replace(filled=steps.fill.tell(live.work[stage_names.FILL], came.slots, total[came.owner]))
        guard.part = "encode"
        Encoder(job, live, records).add(came, made, outputs, report, sent)
    guard.part = None
    if live.aside.met:
        letters += live.aside.letters(records, np.unique(owner).tolist(), {index for index, _ in letters}, report)
    return letters


def _fill(job: Job, live: Live, fill: Fill, rows: Rows, report: Report) -> tuple[Rows, Array]:
    """The samples that have all numbers, or had the missing ones filled.

    Also the number of filled numbers of each record's key, up to and with that record: (records,) int64.
    """
    made = fill.advance(live.work[stage_names.FILL], rows.slots, rows.times, rows.X)
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
    job: Job,
    live: Live,
    sensors: Sensors,
    records: Sequence[Record],
    rows: Rows,
    letters: list[tuple[int, RecordError]],
    report: Report,
) -> Rows:
    """Samples of one sensor each in, samples of all sensors out."""
    made = sensors.advance(live.work[stage_names.SENSORS], rows.slots, rows.times, rows.X, rows.L, rows.owner)
    for reason, count in made.skipped.items():
        _count(report, reason, count)
    for name, came, gaps in zip(sensors.names, made.samples.tolist(), made.gaps.tolist(), strict=True):
        if came:
            report.sensor_samples[name] = report.sensor_samples.get(name, 0) + came
        if gaps:
            report.sensor_gaps[name] = report.sensor_gaps.get(name, 0) + gaps
    if job.settings.source.late == "dlq":
        for index in dict.fromkeys(rows.owner[made.verdict == TOO_LATE].tolist()):
            letters.append((index, RecordError("late", _late(records[index]), stage_names.SENSORS)))
    return Rows(made.slots, made.times, made.X, made.L, made.owner, made.learn)


def _run_signal(
    job: Job,
    live: Live,
    records: Sequence[Record],
    rows: Rows,
    without_time: Array | None,
    letters: list[tuple[int, RecordError]],
    report: Report,
    sent: "list[Sent] | None",
) -> Rows:
    """Event-time order and windows: samples in, rows for the learner out. sent: gets what is said of sensors."""
    order, idle, windows = job.steps.order, job.steps.idle, job.steps.windows
    untimed = None if without_time is None else without_time[rows.owner]
    ordered = order.advance(live.work[stage_names.ORDER], rows.slots, rows.times, rows.X, rows.L, rows.owner, untimed)
    verdicts = ordered.verdict.tobytes()  # in bytes few are counted in a tenth of the time
    if order.policy in ("drop", "dlq"):
        _count(report, "late", verdicts.count(LATE))
        if order.policy == "dlq" and LATE in verdicts:
            for index in dict.fromkeys(rows.owner[ordered.verdict == LATE].tolist()):
                letters.append((index, RecordError("late", _late(records[index]), stage_names.ORDER)))
    if order.duplicates == "drop":
        _count(report, "duplicate", verdicts.count(DUPLICATE))
    now = Rows(ordered.slots, ordered.times, ordered.X, ordered.L, ordered.owner, ordered.learn)
    if sent is not None and job.steps.stuck is not None:
        from streamjobs.core.sensor_alarms import watch_stuck

        sent += watch_stuck(job, live, records, now, report)
    if idle is not None:
        idle.advance(live.work[stage_names.IDLE], now.slots, now.X, now.learn)
    if windows is not None:
        signal = now.slots, now.times, now.X, now.L, now.owner, now.learn
        made = windows.advance(live.work[stage_names.WINDOWS], *signal, ordered.untimed)
        for reason, count in made.skipped.items():
            _count(report, reason, count)
        X = made.X if job.convolutions is None else job.convolutions.rows(made.X)
        now = Rows(made.slots, made.times, X, made.L, made.owner, made.learn)
    if idle is None:
        return now
    slots, times, X, L, owner, learn, _ = now
    return Rows(slots, times, X, L, owner, learn & LEARN, learn >= AWAKE)


def _late(record: Record) -> str:
    return (
        f"topic {record.topic}[{record.partition}] offset {record.offset}: expected samples newer than the key's "
        "newest applied one less the allowed lateness, got an older one."
    )


def _count(report: Report, reason: str, count: int) -> None:
    if count:
        report.skipped[reason] = report.skipped.get(reason, 0) + count


def _match_labels(
    live: Live,
    waiting: LateLabels,
    records: Sequence[Record],
    came: Rows,
    labels: Rows,
    letters: list[tuple[int, RecordError]],
    report: Report,
) -> Matched:
    """Rows that came and, between them, those that a late label lets learn."""
    met = waiting.advance(live.work[stage_names.WAITING], came, labels)
    for reason, count in met.skipped.items():
        _count(report, reason, count)
    if not len(labels.slots):
        return met
    missed = labels.owner[met.missed]
    useful = set(labels.owner[~met.missed].tolist())
    for index in dict.fromkeys(missed.tolist()):
        if index in useful:
            _count(report, "unmatched_label", int((missed == index).sum()))
        else:
            letters.append((index, RecordError("unmatched_label", _unmatched(records[index], waiting), stage_names.WAITING)))
    return met


def _unmatched(record: Record, waiting: LateLabels) -> str:
    return (
        f"topic {record.topic}[{record.partition}] offset {record.offset}: expected a label within {waiting.within:g} s of "
        f"the time of a row that waits for one (for {waiting.wait:g} s, {waiting.most} of a key at most), met none."
    )


def _run_model(
    job: Job,
    live: Live,
    records: Sequence[Record],
    came: Rows,
    now: Rows,
    met: Matched | None,
    report: Report,
    left_out: bool,
) -> Modelled:
    """Scaling, learner, drift, alarms and class counts over the rows `now`; gives what was made of those that `came`."""
    slots = np.zeros(len(now.slots), np.int64) if live.pooled else now.slots
    steps = job.steps
    if steps.clip is not None:
        learned, clipped = steps.clip.advance(live.work[stage_names.CLIP], now.slots, now.L, now.learn)
        now = now._replace(L=learned)
        report.targets_clipped += clipped
    scaled, out, share, apart = run_learners(job, live, slots, now)
    choice = choose(job, live, slots, now, scaled, out.prediction) if job.task == "classification" else None
    bouts = _run_bouts(job, live, now, met, choice, out) if steps.bouts is not None and not left_out else ()
    forecasts = None
    if steps.forecasts is not None and not left_out:
        forecasts = steps.forecasts.advance(live.work[stage_names.FORECASTS], came)
    if steps.waiting is not None and met is not None:
        remember_choices(steps.waiting, live, now, met, choice, report)
        if len(now.slots) > len(came.slots):
            own = met.source >= 0
            slots, scaled, out = slots[own], scaled[own], Outputs(*(array[own] for array in out))
            share, choice = None if share is None else share[own], None if choice is None else choice.of(own)
            apart = None if apart is None else apart[own]
    if job.population is not None and job.population.scaling is not None:
        far = outside(job.composition.columns, scaled, job.settings.scaling.clip, apart)
        for name, count in far.items():
            report.outside[name] = report.outside.get(name, 0) + count
        if far and job.norms is not None:
            report.units.update((live.text_of[came.slots[n]], what) for n, what in job.norms.other_units(came.X))
    ids = identities(records, came.owner, job.life)
    drift, events = watch_drift(job, live, records, Seen(slots, scaled, came, out), ids) if steps.watches else ([], [])
    seq, seen = steps.class_counts.number(live.work[stage_names.CLASS_COUNTS], slots)
    return Modelled(out, drift, share, choice, seq, seen, ids, events, bouts, forecasts=forecasts)


def _run_bouts(
    job: Job, live: Live, now: Rows, met: Matched | None, choice: Choice | None, out: Outputs
) -> "Sequence[Bout]":
    """The bouts that the rows end: of each row the label, or else the class chosen for it."""
    stage, decides = job.steps.bouts, job.steps.smoothing
    assert stage is not None and choice is not None, "only a classification has bouts"
    codes, at = now.L[:, 0], np.arange(len(now.slots))
    labelled = np.isfinite(codes)
    scores = out.prediction
    if decides is not None and decides.probabilities:
        assert choice.smoothed is not None
        scores = choice.smoothed
    of_chosen = np.where(choice.chosen >= 0, scores[at, choice.chosen], np.nan)
    source = at if met is None else met.source
    activity = np.where(labelled, np.nan_to_num(codes), choice.chosen).astype(np.int64)
    made = stage.advance(live.work[stage_names.BOUTS], now.slots, now.times, activity, of_chosen, labelled, source >= 0)
    return [one._replace(row=int(source[one.row])) for one in made]


def identities(records: Sequence[Record], owner: Array, life: str = "") -> list[bytes]:
    """Topic-partition-offset of records[owner[n]]; where it gave several rows, with -i behind it, the place among them.

    owner (n,); records are of one topic and partition; life: of the topic, see `topic_of_life`.
    """
    owners = owner.tolist()
    if not owners:
        return []
    first = records[owners[0]]
    topic = topic_of_life(first.topic, life) if life else first.topic
    base = f"{topic}-{first.partition}-".encode()
    different = set(owners)
    if len(different) == len(owners):
        return [b"%s%d" % (base, records[index].offset) for index in owners]
    times = np.bincount(owner)
    of_record = {index: b"%s%d" % (base, records[index].offset) for index in different}
    if (owner[1:] >= owner[:-1]).all():
        running = np.arange(len(owner)) - np.searchsorted(owner, owner)
    else:
        running = np.empty(len(owner), np.int64)
        order = np.argsort(owner, kind="stable")
        running[order] = np.arange(len(owner)) - np.searchsorted(owner[order], owner[order])
    behind = [b"", *[b"-%d" % number for number in range(int(times.max()))]]
    places = np.where(times[owner] > 1, running + 1, 0).tolist()
    return list(map(operator.add, map(of_record.__getitem__, owners), map(behind.__getitem__, places)))
