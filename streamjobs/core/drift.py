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
        foreseen: dict[str, Array] = {}
        parts.append([_watched(job, live, watch, of_part, standing, foreseen) for watch in job.steps.watches])
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


def _watched(
    job: Job, live: Live, steps: WatchSteps, seen: Seen, standing: _Standing | None, foreseen: dict[str, Array]
) -> Watched:
    """The rows through one watch. Columns are watched unchanged, except for rows that no learner could use either.

    foreseen: what the forecasts of a stage made of these rows, by its name; filled by the first of its watches.
    """
    slots, rows, watch = seen.slots, seen.rows, steps.watch
    n, learn, nothing = len(slots), rows.learn, np.zeros((len(slots), 0))
    X = seen.X if standing is None else standing.X
    value = seen.out.loss if watch.watch == "loss" else seen.out.ls_error
    idle = None if rows.awake is None or rows.awake.all() else ~rows.awake
    if steps.follower is not None and not steps.columns:
        follows = learn if idle is None else np.where(idle, 0, learn)
        if standing is not None:
            follows = np.where(standing.phases == FIRST_HALF, follows, 0)
        value = steps.follower.advance(live.work[watch.learner_stage], slots, X, nothing, follows).ls_error
    if idle is not None:
        value = np.where(idle, np.nan, value)
    if standing is not None:
        learn = _learn_of_detector(standing.phases, learn, steps.columns)
    detector, work = steps.detector, live.work[watch.detector_stage]
    if steps.columns:
        usable = np.isfinite(X).all(axis=1) & np.isfinite(rows.X).all(axis=1)
        values, watched = _sloping(job, live, seen, foreseen), usable if idle is None else usable & ~idle
        taken = np.where(watched.reshape(n, 1), values, np.nan)
        if job.population_reference is not None:
            taken = job.population_reference.rows(taken)
        repeats = None if idle is None else idle & usable
        rhythm = _in_rhythm(job, live, seen, taken, repeats, foreseen)
        if steps.follower is None and rhythm is None and values is rows.X:
            return Watched(unknown((n,)), detector.advance(work, slots, taken, nothing, learn).features)
        young: Array = np.zeros(n, np.bool_)
        expected = None
        if values is not rows.X:
            young |= watched & np.isnan(values).any(axis=1)
        if rhythm is not None:
            taken, young = rhythm[0], young | (rhythm[2, :, 0] == 0.0)
        errors = taken
        if steps.follower is not None:
            errors, expected = np.hsplit(_foreseen(job, live, steps, seen, taken, foreseen), 2)
            young = young | (np.isfinite(taken).all(axis=1) & np.isnan(expected).all(axis=1))
        verdict = detector.advance(work, slots, np.ascontiguousarray(errors), nothing, learn).features
        if young.any():  # rows of the warm-up
            for name in (report.STATISTIC, report.ALARM, report.OPEN, report.READY):
                verdict[young, name] = 0.0
            verdict[young, report.P_VALUE] = 1.0
        for at, which, column in _named(verdict) if expected is not None or rhythm is not None else ():
            usual, spread, shift = at + report.USUAL, at + report.SPREAD, at + report.SHIFT
            if expected is not None:  # what was expected of the row and what came, in place of errors in deviations
                verdict[which, usual] = expected[which, column]
                verdict[which, spread] = (taken[which, column] - expected[which, column]) / verdict[which, shift]
            if rhythm is not None:  # in the units of the columns, and no longer in deviations
                verdict[which, usual] = rhythm[1, which, column] + verdict[which, usual] * rhythm[2, which, column]
                verdict[which, spread] *= rhythm[2, which, column]
        return Watched(unknown((n,)), verdict)
    return Watched(value, detector.advance(work, slots, value.reshape(n, 1).copy(), nothing, learn).features)


def _sloping(job: Job, live: Live, seen: Seen, foreseen: dict[str, Array]) -> Array:
    """(n, width): the rows, with [drift] slopes these in place of their levels."""
    rows = seen.rows
    if job.steps.slopes is None:
        return rows.X
    if SLOPES not in foreseen:
        follows = rows.learn & LEARN_EXTRACTOR > 0
        if rows.awake is not None:  # repeats would be a slope of 0
            follows &= rows.awake
        foreseen[SLOPES] = job.steps.slopes.advance(live.work[SLOPES], rows.slots, rows.times, rows.X, follows)
    return foreseen[SLOPES]


def _in_rhythm(
    job: Job, live: Live, seen: Seen, taken: Array, repeats: Array | None, foreseen: dict[str, Array]
) -> Array | None:
    """(3, n, width): the rows in deviations from their time of day, with centres and units; None without [drift] daily.

    repeats (n,) bool: rows of idle sensors, which are watched too where the sensor usually is not idle.
    """
    if job.steps.rhythm is None:
        return None
    if RHYTHM not in foreseen:
        follows = seen.rows.learn & LEARN_EXTRACTOR > 0
        if repeats is not None:
            values = _sloping(job, live, seen, foreseen)
            taken, follows = np.where(repeats.reshape(-1, 1), values, taken), follows & ~repeats
        of_rows = seen.slots, seen.rows.times, taken, follows, repeats
        foreseen[RHYTHM] = job.steps.rhythm.advance(live.work[RHYTHM], *of_rows)
    return foreseen[RHYTHM]


def _foreseen(job: Job, live: Live, steps: WatchSteps, seen: Seen, taken: Array, foreseen: dict[str, Array]) -> Array:
    """(n, 2 width): errors of the forecasts that several watches share, and the forecasts."""
    stage, slots, rows = steps.watch.learner_stage, seen.slots, seen.rows
    if stage not in foreseen:
        assert job.steps.pauses is not None and steps.follower is not None
        after = job.steps.pauses.advance(live.work[PAUSES], slots, rows.times)
        follows = np.where(after, rows.learn | AFTER_PAUSE, rows.learn).astype(np.int8)
        nothing = np.zeros((len(slots), 0))
        foreseen[stage] = steps.follower.advance(live.work[stage], slots, taken, nothing, follows).features
    return foreseen[stage]


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
