"""Rows through what learns, each stage in one compiled call over all keys of a batch, and the class chosen for each row.

Drift: a detector watches an error of the job's learner, or of an extractor that only follows the stream. Each control is a
learner with a detector too, so that every verdict can be compared with that of a few lines of code. Rows of an idle sensor
are not watched, and extractor and controls do not learn them: when the sensor wakes up, they know what was there before. A
gap is no row at all.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, PREDICT_ONLY, Array, Outputs, unknown
from algorithms.drift.report import watches_columns
from streamjobs.core.job import Job
from streamjobs.core.messages import Report
from streamjobs.core.state.live import Live
from streamjobs.settings.composition import Watch
from streamjobs.stages.class_counts import ClassCounts, targets_of
from streamjobs.stages.fallback import Fallback
from streamjobs.stages.late_labels import LateLabels, Matched
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.names import CLASS_COUNTS, LEARNER, MAP, REFERENCE, REFERENCE_SCALING, SCALING
from streamjobs.stages.reference import FIRST_HALF, Reference
from streamjobs.stages.reject import Rejection
from streamjobs.stages.rows import Choice, Rows, Watched
from streamjobs.stages.smoothing import Smoothing


def run_learners(job: Job, live: Live, slots: Array, rows: Rows) -> tuple[Array, Outputs, Array | None]:
    """The rows scaled, what map and learner made of them, and the share of the adapted head (n,) where there are two.

    A population's scaling and map serve all keys at once and learn nothing.
    """
    X = np.ascontiguousarray(rows.X)
    to_scale = _features(job, live, SCALING, slots, X, rows.learn)
    scaled = X if to_scale is None else to_scale.features
    mapped = _features(job, live, MAP, slots, scaled, rows.learn)
    if job.task == "classification":
        Y = targets_of(rows.L[:, 0], job.targets)
    else:
        Y = np.ascontiguousarray(rows.L) if job.task == "regression" else np.zeros((len(slots), 0))
    X = scaled if mapped is None else mapped.features
    out = job.stage(LEARNER, LearnerStage).advance(live.work[LEARNER], slots, X, Y, rows.learn)
    share = job.learner.adapted_share(out)
    if mapped is not None:
        out = mapped._replace(prediction=out.prediction, loss=out.loss)
    return scaled, out, share


def _features(job: Job, live: Live, name: str, slots: Array, X: Array, learn: Array) -> Outputs | None:
    """What a stage that gives features makes of X (n, dim); None where the job has no such stage."""
    stage, nothing = job.optional_stage(name, LearnerStage), np.zeros((len(slots), 0))
    if stage is None:
        return None
    if name in live.shared:
        first, nobody = np.zeros(len(slots), np.int64), np.full(len(slots), PREDICT_ONLY, np.int8)
        return stage.advance(live.shared[name], first, X, nothing, nobody)
    return stage.advance(live.work[name], slots, X, nothing, learn)


class Choosing(NamedTuple):
    """The stages that make classes of scores."""

    smoothing: Smoothing | None
    counts: ClassCounts
    fallback: Fallback | None
    reject: Rejection | None = None

    @classmethod
    def of(cls, job: Job) -> "Choosing":
        counts = job.stage(CLASS_COUNTS, ClassCounts)
        fallback = job.optional_stage("fallback", Fallback)
        return cls(job.optional_stage("smoothing", Smoothing), counts, fallback, job.rejection)

    def advance(
        self, work: Mapping[str, Any], slots: Array, scores: Array, codes: Array, learn: Array, X: Array | None = None
    ) -> Choice:
        """Scores (n, classes) smoothed, and the class they choose among those that may be predicted, or none: unknown.

        X: scaled rows (n, width), by which a row may be unknown too; needed with `reject`.
        """
        smoothed = None
        if self.smoothing is not None:
            scores = smoothed = self.smoothing.advance(work["smoothing"], slots, scores, learn)
        labelled = np.empty(scores.shape, np.int8)
        chosen, known = self.counts.decide(work[CLASS_COUNTS], slots, scores, codes, learn, labelled)
        if self.fallback is not None:
            self.fallback.advance(work["fallback"], slots, chosen, codes, learn)
        unknown = None
        if self.reject is not None:
            assert X is not None, "what rejects looks at the rows too"
            unknown = self.reject.unknown(scores, chosen, X)
            chosen[unknown] = -1
        return Choice(chosen, smoothed, known, labelled, unknown)


def choose(job: Job, live: Live, slots: Array, rows: Rows, scaled: Array, scores: Array) -> Choice:
    """The class of each row, scaled (n, width), from its scores (n, targets)."""
    codes = np.ascontiguousarray(rows.L[:, 0])
    return Choosing.of(job).advance(live.work, slots, scores, codes, rows.learn, scaled)


def remember_choices(job: Job, live: Live, now: Rows, met: Matched, choice: Choice | None, report: Report) -> None:
    """Count late labels against the class chosen at the time, and keep the classes chosen for rows that wait."""
    chosen = np.full(len(now.slots), -1) if choice is None else choice.chosen
    job.stage("waiting", LateLabels).remember(live.work["waiting"], now.slots, chosen)
    report.labels += int(met.late.sum())
    if choice is not None:
        then = np.where(met.origin >= 0, chosen[met.origin], met.said)
        report.wrong += int(((then >= 0) & (then != now.L[:, 0]) & met.late).sum())


class Standing(NamedTuple):
    """Rows of a job with [drift] reference."""

    phases: Array  # (n,) int8, see `stages.reference`
    X: Array  # (n, width) as extractors see them, by the scale of the reference


def place_in_reference(job: Job, live: Live, slots: Array, X: Array, rows: Rows) -> Standing | None:
    """Which of the rows, X (n, width) scaled, teach what is normal; None where no reference stands still.

    Rows of an idle sensor and rows with numbers that are not finite are no part of a reference.
    """
    stage = job.optional_stage(REFERENCE, Reference)
    if stage is None:
        return None
    counts = np.isfinite(rows.X).all(axis=1) & (rows.learn & LEARN_EXTRACTOR > 0)
    if rows.awake is not None:
        counts &= rows.awake
    phases = stage.advance(live.work[REFERENCE], slots, rows.times, counts)
    follows = np.where(counts & (phases == FIRST_HALF), LEARN, PREDICT_ONLY).astype(np.int8)
    scaled = _features(job, live, REFERENCE_SCALING, slots, np.ascontiguousarray(rows.X), follows)
    return Standing(phases, X if scaled is None else scaled.features)


def watch_drift(
    job: Job, live: Live, watch: Watch, slots: Array, X: Array, rows: Rows, value: Array, standing: Standing | None = None
) -> Watched:
    """The rows through one watch: scaled X (n, width); value (n,) is the error of the job's own learner.

    Columns are watched as they come, but for rows that nobody else could use either.
    """
    n, learn, nothing = len(slots), rows.learn, np.zeros((len(slots), 0))
    if standing is not None:
        X = standing.X
    idle = None if rows.awake is None or rows.awake.all() else ~rows.awake
    if watch.learner is not None:
        follows = learn if idle is None else np.where(idle, 0, learn)
        if standing is not None:
            follows = np.where(standing.phases == FIRST_HALF, follows, 0)
        stage, work = job.stage(watch.learner_stage, LearnerStage), live.work[watch.learner_stage]
        value = stage.advance(work, slots, X, nothing, follows).ls_error
    if idle is not None:
        value = np.where(idle, np.nan, value)
    if standing is not None:
        learn = _learn_of_detector(standing.phases, learn, watches_columns(watch.detector))
    detector, work = job.stage(watch.detector_stage, LearnerStage), live.work[watch.detector_stage]
    if watches_columns(watch.detector):
        usable = np.isfinite(X).all(axis=1) & np.isfinite(rows.X).all(axis=1)
        seen = (usable if idle is None else usable & ~idle).reshape(n, 1)
        rows_seen = np.where(seen, rows.X, np.nan)
        return Watched(unknown((n,)), detector.advance(work, slots, rows_seen, nothing, learn).features)
    return Watched(value, detector.advance(work, slots, value.reshape(n, 1).copy(), nothing, learn).features)


def _learn_of_detector(phases: Array, learn: Array, columns: bool) -> Array:
    """Which rows teach a detector its reference (LEARN), and which only go on (LEARN_EXTRACTOR); (n,) int8.

    In the first half what is learned is not yet how large errors are, but columns are what they are.
    """
    of_first = LEARN if columns else PREDICT_ONLY
    taught = np.array([of_first, LEARN, LEARN_EXTRACTOR], np.int8)[phases]
    return np.where(learn & LEARN_EXTRACTOR > 0, taught, PREDICT_ONLY).astype(np.int8)


def error_of(out: Outputs, watch: Watch) -> Array:
    """The error (n,) of the job's own learner that a watch is about."""
    return out.loss if watch.watch == "loss" else out.ls_error
