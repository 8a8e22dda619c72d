"""Rows through what learns, each stage in one compiled call over all keys of a batch, and the class said of each row."""

from typing import Any

import numpy as np

from algorithms import Learner
from algorithms.common.protocol import PREDICT_ONLY, Array, Outputs, Stage
from algorithms.heads.gated import GatedRls
from algorithms.heads.smoothing import Smoothing
from streamjobs.core.job import Job
from streamjobs.core.messages import Report
from streamjobs.core.state.live import Live
from streamjobs.settings.composition import Watch
from streamjobs.settings.sections import DriftSection
from streamjobs.stages.class_counts import Books, targets_of
from streamjobs.stages.fallback import Fallback
from streamjobs.stages.late_labels import Met, Waiting
from streamjobs.stages.rows import Rows, Said, Watched


def learned(job: Job, live: Live, slots: Array, rows: Rows) -> tuple[Array, Outputs, Array | None]:
    """The rows scaled, what map and learner made of them, and the share of the adapted head (n,) where there are two.

    A population's scaling and map serve all keys at once and learn nothing.
    """
    n, X, nothing = len(slots), np.ascontiguousarray(rows.X), np.zeros((len(slots), 0))
    scaled, mapped = X, None
    for name in ("scaling", "map"):
        stage = job.stages.get(name)
        if stage is None:
            continue
        assert isinstance(stage, Learner)
        mapped = stage.outputs(n, X.shape[1], 0)
        if name in live.shared:
            first, idle = np.zeros(n, np.int64), np.full(n, PREDICT_ONLY, np.int8)
            stage.advance(live.shared[name], first, X, nothing, mapped, idle)
        else:
            stage.advance(live.work[name], slots, X, nothing, mapped, rows.learn)
        X = mapped.features
        scaled = X if name == "scaling" else scaled
    if job.task == "classification":
        Y = targets_of(rows.L[:, 0], job.targets)
    else:
        Y = np.ascontiguousarray(rows.L) if job.task == "regression" else nothing
    out = job.learner.outputs(n, X.shape[1], job.targets)
    job.learner.advance(live.work["learner"], slots, X, Y, out, rows.learn)
    share = out.features[:, 0] if isinstance(job.learner, GatedRls) else None
    if "map" in job.stages:
        assert mapped is not None
        out = mapped._replace(prediction=out.prediction, loss=out.loss)
    return scaled, out, share


def decided(job: Job, live: Live, slots: Array, rows: Rows, scores: Array) -> Said:
    """Scores (n, targets) smoothed, and the class they say among those that may be said."""
    codes = np.ascontiguousarray(rows.L[:, 0])
    smoothing, fallback, books = job.stages.get("smoothing"), job.stages.get("fallback"), job.stages["books"]
    smoothed = None
    if isinstance(smoothing, Smoothing):
        scores = smoothed = smoothing.advance(live.work["smoothing"], slots, scores, rows.learn)
    assert isinstance(books, Books)
    labelled = np.empty((len(slots), job.targets), np.int8)
    chosen, known = books.decide(live.work["books"], slots, scores, codes, rows.learn, labelled)
    if isinstance(fallback, Fallback):
        fallback.advance(live.work["fallback"], slots, chosen, codes, rows.learn)
    return Said(chosen, smoothed, known, labelled)


def remember(job: Job, live: Live, now: Rows, met: Met, said: Said | None, report: Report) -> None:
    """Count late labels against what was said at the time, and keep what was said of rows that wait."""
    waiting = job.stages["waiting"]
    assert isinstance(waiting, Waiting)
    chosen = np.full(len(now.slots), -1) if said is None else said.chosen
    waiting.remember(live.work["waiting"], now.slots, chosen)
    report.labels += int(met.late.sum())
    if said is not None:
        then = np.where(met.origin >= 0, chosen[met.origin], met.said)
        report.wrong += int(((then >= 0) & (then != now.L[:, 0]) & met.late).sum())


def watched(
    watch: Watch, stages: dict[str, Stage], work: dict[str, Any], slots: Array, X: Array, rows: Rows, value: Array
) -> Watched:
    """The rows through one watch: scaled X (n, width); value (n,) is the error of the job's own learner."""
    n, learn, nothing = len(slots), rows.learn, np.zeros((len(slots), 0))
    idle = None if rows.awake is None or rows.awake.all() else ~rows.awake
    if watch.learner is not None:
        learner = stages[watch.learner]
        assert isinstance(learner, Learner)
        followed = learner.outputs(n, X.shape[1], 0)
        learner.advance(
            work[watch.learner], slots, X, nothing, followed, learn if idle is None else np.where(idle, 0, learn)
        )
        value = followed.ls_error
    if idle is not None:
        value = np.where(idle, np.nan, value)
    detector = stages[watch.detector]
    assert isinstance(detector, Learner)
    found = detector.outputs(n, 1, 0)
    detector.advance(work[watch.detector], slots, value.reshape(n, 1).copy(), nothing, found, learn)
    return Watched(value, found.features)


def error_of(out: Outputs, drift: DriftSection) -> Array:
    """The error (n,) of the job's own learner that the detector watches."""
    return out.loss if drift.watch == "loss" else out.ls_error
