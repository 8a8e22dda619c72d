"""The Skoltech Anomaly Benchmark (SKAB v0.9, a water pump's testbed): our line in the form of the published board.

    python -m papers skab [--out FOLDER]

34 experiments of 8 columns at about 1 Hz; the first 400 rows of each are learned from, the rest is judged, with one setting
for all. F1, false alarm rate (FAR) and missed alarm rate (MAR) over all judged rows together; NAB's standard score of the
rows where the verdict turns, with a window of 60 s after each true change point.

"reference" learns mean, deviation and correlation of 400 rows once and stands still from then on: an EWMA of the whitened
rows is an anomaly while its squared length is above LIMIT times the largest of the 400. Columns that wander there are left
out, because what has no level has no normal one: where the means of four quarters have more than WANDER of a column's
variance. It looks at the 400 rows twice, so it is a scorer here and no detector of jobs. Smoothing, LIMIT and WANDER were
chosen on the experiments of even number; those of odd number are told on their own.

"job" is a job file with `reference = "first 400 rows"` (JOB), run by the core that workers run: an anomaly is an alarm that
is open. It looks at every row once. Its false_alarms were chosen on the experiments of even number; all else is as it comes.
"column_chart" is the detector of jobs without a reference, whose scale alone stands still.
"""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from algorithms import learner_from
from algorithms.common.protocol import Array
from algorithms.drift.report import OPEN
from papers.common import line, options
from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Stored
from streamjobs.replay.engine import Replay
from streamjobs.settings.load import composition_from
from tests.data import dataset

LEARNED = 400  # rows
WINDOW = 60.0  # seconds after a change point
FALSE_WEIGHT = 0.11  # of a false detection in NAB's standard profile
SMOOTHING, LIMIT, WANDER, SHRINK, CLIP = 0.05, 2.0, 0.2, 0.1, 8.0
BARS = {"F1": 0.80, "FAR": 30.0, "NAB": 33.0}
JOB = """
[source]
topic = "pump"
x = "x"
dim = 8
time = "t"

[learner]
name = "okfeb"
role = "track"
rank = 10
budget = 15

[drift]
watch = "columns"
reference = "first 400 rows"
false_alarms = "1 per 3000 rows"

[sinks]
features = ""
drift = "rows"
"""
BOARD = {  # F1, FAR %, MAR %, NAB standard, as published; NaN: not among the figures we have
    "Conv-AE": (0.78, 13.6, 28.0, 23.6),
    "MSET": (0.78, np.nan, np.nan, np.nan),
    "T2+Q": (0.76, np.nan, np.nan, 25.4),
    "LSTM-AE": (0.74, np.nan, np.nan, np.nan),
    "isolation forest": (0.29, np.nan, np.nan, 26.2),
    "MSCRED": (np.nan, np.nan, np.nan, 32.4),
}


class Scores(NamedTuple):
    f1: float
    far: float  # %
    mar: float  # %
    nab: float


class Experiment(NamedTuple):
    X: Array
    times: Array  # seconds
    anomaly: Array  # bool
    changes: Array  # rows


def experiments() -> list[Experiment]:
    data = dataset("skab")
    found = []
    for key in np.unique(data["key"]).tolist():
        own = data["key"] == key
        times, anomaly = data["t"][own].astype(float), data["anomaly"][own] > 0
        found.append(Experiment(data["X"][own].astype(float), times, anomaly, np.flatnonzero(data["changepoint"][own])))
    return found


def reference(one: Experiment) -> Array:
    """Anomalies (n,) bool, by a reference that stands still."""
    learned = one.X[:LEARNED]
    variance = np.maximum(learned.var(axis=0), 1e-12)
    wander = learned.reshape(4, LEARNED // 4, -1).mean(axis=1).var(axis=0) / variance
    use = wander <= max(WANDER, float(wander.min()))
    scaled = np.clip((one.X[:, use] - learned[:, use].mean(axis=0)) / np.sqrt(variance[use]), -CLIP, CLIP)
    covariance = np.atleast_2d(np.cov(scaled[:LEARNED].T))
    factor = np.linalg.cholesky((1 - SHRINK) * covariance + SHRINK * np.eye(int(use.sum())))
    white = np.linalg.solve(factor, scaled.T).T
    smooth, lengths = np.zeros(white.shape[1]), np.empty(len(white))
    for t, row in enumerate(white):
        smooth = smooth + SMOOTHING * (row - smooth)
        lengths[t] = smooth @ smooth
    return lengths > LIMIT * lengths[:LEARNED].max()


def chart(one: Experiment) -> Array:
    """Anomalies (n,) bool, by the detector of jobs; an open alarm is not taken for the new normal."""
    detector = learner_from("column_chart", {"learn": LEARNED // 2, "rows_between": 1000.0, "hold": len(one.X)})
    _, out = detector.run(detector.init(dim=one.X.shape[1], targets=0, seed=0), one.X)
    return out.features[:, OPEN] > 0


def job(one: Experiment) -> Array:
    """Anomalies (n,) bool, by a job."""
    records = [
        Stored("pump", 0, n, int(1000 * time), b"pump", json.dumps({"t": time, "x": x}).encode())
        for n, (time, x) in enumerate(zip(one.times.tolist(), one.X.tolist(), strict=True))
    ]
    is_open: list[bool] = []

    def take(output: Output) -> None:
        assert output.sink in ("drift", "alarms"), f"a row was not taken: {output}"
        if output.sink == "drift":
            is_open.append(json.loads(output.value or b"").get("open", False))

    Replay(Job.from_composition(composition_from(tomllib.loads(JOB)))).run(records, take, lambda tally: None)
    return np.array(is_open)


def sigmoid(y: float) -> float:
    """NAB's: 1 well before the end of a window (y = -1 is its begin), 0 at the end, -1 well after."""
    return float(2.0 / (1.0 + np.exp(5.0 * y)) - 1.0)


def nab(detected: Array, changes: Array, times: Array) -> tuple[float, int]:
    """The raw score of one experiment's detections (times), and its windows.

    The earliest detection in a window counts, the more the earlier; a window without one costs 1; one outside costs up to
    FALSE_WEIGHT, the more the further behind the latest window.
    """
    begins = times[changes]
    score, met = 0.0, np.zeros(len(begins), bool)
    for at in detected.tolist():
        inside = np.flatnonzero((begins <= at) & (at <= begins + WINDOW))
        if len(inside):
            if not met[inside[0]]:
                score += sigmoid((at - begins[inside[0]] - WINDOW) / WINDOW) / sigmoid(-1.0)
            met[inside[0]] = True
            continue
        ended = begins[begins + WINDOW < at]
        score += FALSE_WEIGHT * (sigmoid((at - ended[-1] - WINDOW) / WINDOW) if len(ended) else -1.0)
    return score - float((~met).sum()), len(begins)


def scored(judged: Iterable[tuple[Experiment, Array]]) -> Scores:
    """Over all experiments together, the learned rows left out."""
    truth, said, raw, windows = [], [], 0.0, 0
    for one, anomalies in judged:
        later = slice(LEARNED, None)
        truth.append(one.anomaly[later])
        said.append(anomalies[later])
        turns = np.flatnonzero(np.diff(anomalies[later].astype(np.int8), prepend=0)) + LEARNED
        changes = one.changes[one.changes >= LEARNED]
        score, count = nab(one.times[turns], changes, one.times)
        raw, windows = raw + score, windows + count
    a, f = np.concatenate(truth), np.concatenate(said)
    hit, false, missed, still = (int(both.sum()) for both in (a & f, ~a & f, a & ~f, ~a & ~f))
    nab_score = 100.0 * (raw + windows) / (2.0 * windows)
    return Scores(
        2 * hit / (2 * hit + false + missed), 100 * false / (false + still), 100 * missed / (missed + hit), nab_score
    )


WAYS: Mapping[str, Callable[[Experiment], Array]] = {"reference": reference, "job": job, "column_chart": chart}


def main(arguments: list[str] | None = None) -> int:
    options("skab", __doc__, arguments)
    every = experiments()
    print(f"{'':34}{'F1':>6}{'FAR %':>8}{'MAR %':>8}{'NAB':>7}")
    for name, figures in BOARD.items():
        f1, far, mar, score = ("" if np.isnan(figure) else f"{figure:g}" for figure in figures)
        print(f"{name + ' (published)':34}{f1:>6}{far:>8}{mar:>8}{score:>7}")
    missed = []
    for name, way in WAYS.items():
        anomalies = [way(one) for one in every]
        judged = list(zip(every, anomalies, strict=True))
        for part, some in (("all 34", judged), ("odd: no setting chosen on them", judged[1::2]), ("even", judged[::2])):
            f1, far, mar, score = scored(some)
            print(f"{name + ', ' + part:34}{f1:6.2f}{far:8.1f}{mar:8.1f}{score:7.1f}", flush=True)
            if part != "even":
                missed += line(f"{name}, {part}: F1", f"{f1:.3f}", f">= {BARS['F1']:.2f}", round(f1, 2) >= BARS["F1"])
                missed += line(f"{name}, {part}: FAR", f"{far:.1f} %", f"<= {BARS['FAR']:g} %", far <= BARS["FAR"])
                missed += line(f"{name}, {part}: NAB standard", f"{score:.1f}", f">= {BARS['NAB']:g}", score >= BARS["NAB"])
    print(f"missed: {', '.join(missed) or 'nothing'}.")
    return 0
