"""Rows through what learns, each stage in one compiled call over all keys of a batch, and the class chosen for each row."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array, Outputs
from streamjobs.core import unlearned
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import LateLabel, Report
from streamjobs.stages.class_counts import ClassCounts, Fallback, targets_of
from streamjobs.stages.late_labels import LateLabels, Matched
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.names import CLASS_COUNTS, ELAPSED, FALLBACK, LEARNER, MAP, REFUTED, SCALING, SMOOTHING, WAITING
from streamjobs.stages.population.reject import Rejection
from streamjobs.stages.rows import Choice, Rows, picked
from streamjobs.stages.smoothing import Elapsed, Refuted, Smoothing, Transitions


class Ran(NamedTuple):
    scaled: Array  # (n, width) rows
    out: Outputs  # of map and learner
    share: Array | None  # (n,) of the adapted head, where there are two
    apart: Array | None  # (n,) bool, rows with directions unlike the population's; None without them


def run_learners(job: Job, live: Live, slots: Array, rows: Rows) -> Ran:
    """What the learners make of the rows.

    A population's scaling and map serve all keys at once and learn nothing.
    """
    X = np.ascontiguousarray(rows.X)
    steps = job.steps
    scaled = X if steps.scaling is None else features(live, SCALING, steps.scaling, slots, X, rows.learn).features
    mapped = None if steps.map is None else features(live, MAP, steps.map, slots, scaled, rows.learn)
    if job.task == "classification":
        Y = targets_of(rows.L[:, 0], job.targets)
    else:
        Y = np.ascontiguousarray(rows.L) if job.task == "regression" else np.zeros((len(slots), 0))
    X, apart = scaled if mapped is None else mapped.features, None
    if job.composition.keeps_input:
        X = np.hstack([scaled, X])
    if job.directions is not None:
        X = job.directions.rows(X)
        apart = unlearned.apart(X)
    out = steps.learner.advance(live.work[LEARNER], slots, X, Y, rows.learn)
    share = job.learner.adapted_share(out)
    if mapped is not None:
        out = mapped._replace(prediction=out.prediction, loss=out.loss)
    return Ran(scaled, out, share, apart)


def features(live: Live, name: str, stage: LearnerStage, slots: Array, X: Array, learn: Array) -> Outputs:
    """Outputs of a stage without targets, of this stored name, for X (n, dim)."""
    nothing = np.zeros((len(slots), 0))
    if stage.shared is not None:
        first, nobody = np.zeros(len(slots), np.int64), np.zeros(len(slots), np.int8)  # of PREDICT_ONLY
        return stage.advance(live.shared[name], first, X, nothing, nobody)
    return stage.advance(live.work[name], slots, X, nothing, learn)


class Choosing(NamedTuple):
    """The stages that make classes of scores."""

    smoothing: Smoothing | Transitions | None
    counts: ClassCounts
    fallback: Fallback | None
    reject: Rejection | None = None
    refuted: Refuted | None = None
    elapsed: Elapsed | None = None

    def advance(
        self,
        work: Mapping[str, Any],
        slots: Array,
        scores: Array,
        codes: Array,
        learn: Array,
        X: Array | None = None,
        times: Array | None = None,
    ) -> Choice:
        """Scores (n, classes) smoothed, and the class they choose among those that may be predicted, or none: unknown.

        X: scaled rows (n, width), by which a row may be unknown too; needed with `reject`. times (n,): of events, seconds;
        needed with `elapsed`.
        """
        smoothed, of_head = None, scores
        if self.smoothing is not None:
            refuted, since = None, None
            if self.refuted is not None:
                refuted = self.refuted.advance(work[REFUTED], slots, scores, codes, learn), codes
            if self.elapsed is not None:
                assert times is not None, "what follows rows looks at their times"
                since = self.elapsed.advance(work[ELAPSED], slots, scores, times, learn)
            scores = smoothed = self.smoothing.advance(work[SMOOTHING], slots, scores, learn, refuted, since)
        labelled = np.empty(scores.shape, np.int8)
        chosen, known, score = self.counts.decide(work[CLASS_COUNTS], slots, scores, codes, learn, labelled)
        if self.fallback is not None:
            self.fallback.advance(work[FALLBACK], slots, chosen, codes, learn)
        unknown = None
        if self.reject is not None:
            assert X is not None, "what rejects looks at the rows too"
            unknown = self.reject.unknown(of_head if self.reject.of_head else scores, chosen, X)
            chosen[unknown], score[unknown] = -1, np.nan
        return Choice(chosen, smoothed, known, labelled, score, unknown)


def choose(job: Job, live: Live, slots: Array, rows: Rows, scaled: Array, scores: Array) -> Choice:
    """The class of each row, scaled (n, width), from its scores (n, targets)."""
    codes, steps = np.ascontiguousarray(rows.L[:, 0]), job.steps
    choosing = Choosing(steps.smoothing, steps.class_counts, steps.fallback, job.rejection, steps.refuted, steps.elapsed)
    return choosing.advance(live.work, slots, scores, codes, rows.learn, scaled, rows.times)


def remember_choices(
    waiting: LateLabels, live: Live, now: Rows, met: Matched, choice: Choice | None, report: Report
) -> None:
    """Count late labels against the class chosen at the time, and keep the classes chosen for rows that wait."""
    chosen = np.full(len(now.slots), -1) if choice is None else choice.chosen
    waiting.remember(live.work[WAITING], now.slots, chosen)
    if not len(met.missed) or not met.late.any():
        return
    late = picked(met.rows, met.late)
    report.labels += len(late.slots)
    slots, labels = (
        late.slots.tolist(),
        late.L[:, 0].tolist() if choice is not None or late.L.shape[1] == 1 else late.L.tolist(),
    )
    if choice is not None:
        labels = [live.names[0 if live.pooled else slot][int(code)] for slot, code in zip(slots, labels, strict=True)]
    keys, came = [live.text_of[slot] for slot in slots], met.newest[~met.missed].tolist()
    report.late += map(LateLabel, keys, late.times.tolist(), labels, came)
    if choice is not None:
        then = np.where(met.origin >= 0, chosen[met.origin], met.said)
        report.wrong += int(((then >= 0) & (then != now.L[:, 0]) & met.late).sum())
