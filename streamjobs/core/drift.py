"""Rows through what watches for drift: the reference, extractors and controls, detectors, and the alarms they open and end.

A detector watches an error of the job's learner, or of an extractor that only follows the stream. Each control is a
learner with a detector too, so that every verdict can be compared with that of a few lines of code. Rows of an idle sensor
are not watched, and extractor and controls do not learn them: when the sensor wakes up, they know what was there before. A
gap is not a row at all.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import AFTER_PAUSE, LEARN, LEARN_EXTRACTOR, PREDICT_ONLY, Array, Outputs, unknown
from algorithms.drift import report
from streamjobs.core.alarms import events_of
from streamjobs.core.job import Job
from streamjobs.core.job_stages import WatchSteps
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Record
from streamjobs.core.model import features
from streamjobs.stages.alarms import Event
from streamjobs.stages.names import ALARMS, PAUSES, REFERENCE, REFERENCE_SCALING, RHYTHM, SLOPES
from streamjobs.stages.reference import FIRST_HALF
from streamjobs.stages.rows import Rows, Watched, picked


class Seen(NamedTuple):
    """Rows as watches see them."""

    slots: Array  # (n,)
    X: Array  # (n, width) scaled
    rows: Rows
    out: Outputs  # of the job's own learner

    def part(self, which: slice) -> "Seen":
        return Seen(
            self.slots[which], self.X[which], picked(self.rows, which), Outputs(*(array[which] for array in self.out))
        )


def watch_drift(
    job: Job, live: Live, records: Sequence[Record], seen: Seen, ids: Sequence[bytes]
) -> tuple[list[Watched], list[Event]]:
    """What every watch makes of the rows (ids: of each), and the alarms that they raise and end."""
    parts: list[list[Watched]] = []
    events: list[Event] = []
    for part in _parts(job, live, seen):
        of_part = seen if part == slice(0, len(seen.slots)) else seen.part(part)
        standing = _place_in_reference(job, live, of_part)
        columns = _columns(job, live, of_part, standing) if any(watch.columns for watch in job.steps.watches) else None
        foreseen: dict[str, _Foreseen] = {}
        parts.append([_watched(job, live, watch, of_part, standing, columns, foreseen) for watch in job.steps.watches])
        made = events_of(job, live, records, of_part.slots, of_part.rows, parts[-1], ids[part])
        events += [event._replace(row=event.row + part.start) for event in made]
    if len(parts) == 1:
        return parts[0], events
    of_watches = [zip(*of_parts, strict=True) for of_parts in zip(*parts, strict=True)]
    return [Watched(*(np.concatenate(arrays) for arrays in fields)) for fields in of_watches], events


def _parts(job: Job, live: Live, seen: Seen) -> Iterator[slice]:
    """The rows in parts, each up to a row at which its key's alarm may have lasted for [drift] relearn_after.

    Where it has, that row is the first of the key's new reference. Whether it has is known only when the rows before it went
    through the detectors, so a part is to be watched before the next one is asked for.
    """
    n, limit = len(seen.slots), job.composition.relearn_after
    reference, alarms = job.steps.reference, job.steps.alarms
    if limit is None or n == 0 or reference is None or alarms is None:
        yield slice(0, n)
        return
    begin = 0
    while begin < n:
        slots, times = seen.slots[begin:], seen.rows.times[begin:]
        over = reference.over(live.work[REFERENCE], slots)
        if over[0] and limit.reached(*alarms.lasted(live.work[ALARMS], slots[:1], times[:1], times[:1]))[0]:
            fresh = job.fresh(job.seed_of(live.key_of[int(slots[0])]))
            for name, state in job.normal_of(fresh).items():  # as after 'drift relearn'
                job.own[name].load(live.work[name], int(slots[0]), state)
        order = np.argsort(slots, kind="stable")
        own = slots[order]
        starts = np.flatnonzero(np.r_[True, own[1:] != own[:-1]])
        sizes = np.diff(starts, append=len(own))
        before = np.empty(len(own), np.int64)  # rows of the key in this part before each
        before[order] = np.arange(len(own)) - np.repeat(starts, sizes)
        earliest = np.empty(len(own))
        earliest[order] = np.repeat(np.minimum.reduceat(times[order], starts), sizes)
        rows, seconds = alarms.lasted(live.work[ALARMS], slots, times, earliest)
        may = limit.reached(before + np.where(over, rows, 0), np.where(over, seconds, times - earliest))
        may[0] = False  # it was seen to
        end = begin + (int(np.argmax(may)) if may.any() else n - begin)
        yield slice(begin, end)
        begin = end


class _Standing(NamedTuple):
    """Rows of a job with [drift] reference."""

    phases: Array  # (n,) int8, see `stages.reference`
    X: Array  # (n, width) as extractors see them, by the scale of the reference


def _place_in_reference(job: Job, live: Live, seen: Seen) -> _Standing | None:
    """Which of the rows teach what is normal; None where no reference stands still.

    Rows of an idle sensor and rows with numbers that are not finite are not part of a reference.
    """
    stage, scaling, rows = job.steps.reference, job.steps.reference_scaling, seen.rows
    if stage is None:
        return None
    counts = np.isfinite(rows.X).all(axis=1) & (rows.learn & LEARN_EXTRACTOR > 0)
    if rows.awake is not None:
        counts &= rows.awake
    phases = stage.advance(live.work[REFERENCE], seen.slots, rows.times, counts)
    follows = np.where(counts & (phases == FIRST_HALF), LEARN, PREDICT_ONLY).astype(np.int8)
    if scaling is None:
        return _Standing(phases, seen.X)
    X = np.ascontiguousarray(rows.X)
    return _Standing(phases, features(live, REFERENCE_SCALING, scaling, seen.slots, X, follows).features)


class _Columns(NamedTuple):
    """Rows as detectors of columns see them."""

    X: Array  # (n, width), NaN in rows that are not watched; C-contiguous
    young: Array | None  # (n,) bool, rows of a warm-up before the detectors; None: there is none
    rhythm: Array | None  # (3, n, width): X, centres and units of the time of day; None without [drift] daily


class _Foreseen(NamedTuple):
    """What the forecasts of a stage made of rows, for all watches of it."""

    errors: Array  # (n, width) C-contiguous
    values: Array  # (n, width)
    young: Array  # (n,) bool, rows before the first forecast


def _watched(
    job: Job,
    live: Live,
    steps: WatchSteps,
    seen: Seen,
    standing: _Standing | None,
    columns: _Columns | None,
    foreseen: dict[str, _Foreseen],
) -> Watched:
    """The rows through one watch. Columns are watched unchanged, except for rows that no learner could use either.

    foreseen: by name of the forecasts' stage; filled by the first of its watches.
    """
    slots, watch = seen.slots, steps.watch
    learn, nothing = seen.rows.learn, np.zeros((len(slots), 0))
    if standing is not None:
        learn = _learn_of_detector(standing.phases, learn, steps.columns)
    detector, work = steps.detector, live.work[watch.detector_stage]
    if not steps.columns:
        value = _errors(live, steps, seen, standing)
        return Watched(value, detector.advance(work, slots, value.reshape(-1, 1).copy(), nothing, learn).features)
    assert columns is not None
    X, young, rhythm = columns
    if steps.follower is None:
        verdict = detector.advance(work, slots, X, nothing, learn).features
    else:
        if watch.learner_stage not in foreseen:
            foreseen[watch.learner_stage] = _foresee(job, live, steps, seen, X)
        errors, values, before = foreseen[watch.learner_stage]
        young = before if young is None else young | before
        verdict = detector.advance(work, slots, errors, nothing, learn).features
    if young is not None and young.any():
        for name in (report.STATISTIC, report.ALARM, report.OPEN, report.READY):
            verdict[young, name] = 0.0
        verdict[young, report.P_VALUE] = 1.0
    for at, which, column in _named(verdict) if steps.follower is not None or rhythm is not None else ():
        usual, spread, shift = at + report.USUAL, at + report.SPREAD, at + report.SHIFT
        if steps.follower is not None:  # what was expected of the row and what came, in place of errors in deviations
            verdict[which, usual] = values[which, column]
            verdict[which, spread] = (X[which, column] - values[which, column]) / verdict[which, shift]
        if rhythm is not None:  # in the units of the columns, and no longer in deviations
            verdict[which, usual] = rhythm[1, which, column] + verdict[which, usual] * rhythm[2, which, column]
            verdict[which, spread] *= rhythm[2, which, column]
    return Watched(unknown((len(slots),)), verdict)


def _errors(live: Live, steps: WatchSteps, seen: Seen, standing: _Standing | None) -> Array:
    """(n,): the number that a watch of one looks at."""
    rows, watch, asleep = seen.rows, steps.watch, _asleep(seen)
    value = seen.out.loss if watch.watch == "loss" else seen.out.ls_error
    if steps.follower is not None:
        follows = rows.learn if asleep is None else np.where(asleep, 0, rows.learn)
        if standing is not None:
            follows = np.where(standing.phases == FIRST_HALF, follows, 0)
        X, nothing = seen.X if standing is None else standing.X, np.zeros((len(seen.slots), 0))
        value = steps.follower.advance(live.work[watch.learner_stage], seen.slots, X, nothing, follows).ls_error
    return value if asleep is None else np.where(asleep, np.nan, value)


def _asleep(seen: Seen) -> Array | None:
    """(n,) bool, rows of idle sensors; None where there are none."""
    awake = seen.rows.awake
    return None if awake is None or awake.all() else ~awake


def _columns(job: Job, live: Live, seen: Seen, standing: _Standing | None) -> _Columns:
    rows, steps, asleep = seen.rows, job.steps, _asleep(seen)
    usable = np.isfinite(seen.X if standing is None else standing.X).all(axis=1) & np.isfinite(rows.X).all(axis=1)
    values, watched, young = rows.X, usable if asleep is None else usable & ~asleep, None
    if steps.slopes is not None:  # in place of levels
        follows = rows.learn & LEARN_EXTRACTOR > 0
        if rows.awake is not None:  # repeats would be a slope of 0
            follows &= rows.awake
        values = steps.slopes.advance(live.work[SLOPES], rows.slots, rows.times, rows.X, follows)
        young = np.asarray(watched & np.isnan(values).any(axis=1))
    X = np.where(watched.reshape(-1, 1), values, np.nan)
    if job.population_reference is not None:
        X = job.population_reference.rows(X)
    if steps.rhythm is None:
        return _Columns(X, young, None)
    follows, repeats = rows.learn & LEARN_EXTRACTOR > 0, None
    if asleep is not None:  # idle sensors are watched too where the sensor usually is not idle
        repeats = asleep & usable
        X, follows = np.where(repeats.reshape(-1, 1), values, X), follows & ~repeats
    rhythm = steps.rhythm.advance(live.work[RHYTHM], seen.slots, rows.times, X, follows, repeats)
    begins: Array = np.asarray(rhythm[2, :, 0] == 0.0)
    return _Columns(np.ascontiguousarray(rhythm[0]), begins if young is None else young | begins, rhythm)


def _foresee(job: Job, live: Live, steps: WatchSteps, seen: Seen, X: Array) -> _Foreseen:
    slots, rows, width = seen.slots, seen.rows, X.shape[1]
    assert job.steps.pauses is not None and steps.follower is not None
    after = job.steps.pauses.advance(live.work[PAUSES], slots, rows.times)
    follows = np.where(after, rows.learn | AFTER_PAUSE, rows.learn).astype(np.int8)
    nothing = np.zeros((len(slots), 0))
    made = steps.follower.advance(live.work[steps.watch.learner_stage], slots, X, nothing, follows).features
    errors, values = np.ascontiguousarray(made[:, :width]), made[:, width:]
    return _Foreseen(errors, values, np.asarray(np.isfinite(X).all(axis=1) & np.isnan(values).all(axis=1)))


def _named(verdict: Array) -> Iterator[tuple[int, Array, Array]]:
    """Each place in the verdict for a column that an alarm names, the rows with such an alarm, and their columns."""
    alarms = np.flatnonzero(verdict[:, report.ALARM] > 0)
    end = report.FIRST_COLUMN + report.OF_COLUMN * report.NAMED if len(alarms) else 0
    for at in range(report.FIRST_COLUMN, end, report.OF_COLUMN):
        which = alarms[np.isfinite(verdict[alarms, at + report.COLUMN])]
        yield at, which, verdict[which, at + report.COLUMN].astype(np.int64)


def _learn_of_detector(phases: Array, learn: Array, columns: bool) -> Array:
    """Which rows teach a detector its reference (LEARN), and which only go on (LEARN_EXTRACTOR); (n,) int8.

    In the first half what is learned is not yet how large errors are, but columns are what they are.
    """
    of_first = LEARN if columns else PREDICT_ONLY
    taught = np.array([of_first, LEARN, LEARN_EXTRACTOR], np.int8)[phases]
    return np.where(learn & LEARN_EXTRACTOR > 0, taught, PREDICT_ONLY).astype(np.int8)
