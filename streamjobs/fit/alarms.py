"""What [drift] reference = 'population' compares rows with: learned from recordings, its limit from people left out.

Within a recording, and between two changes of its label, a person goes on with the same: whatever alarms there is false.
People are left out in turn: what is usual is learned from the others, and every such part of theirs is watched from its
first row. The limit is the smallest with which the mean rate of people, and SURE of its standard errors above it, is at most
what is stated: people differ, and few of them say little of the next one. One alarm more is counted than there was.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.eigen import symmetric
from algorithms.common.protocol import LEARN, Array
from algorithms.drift.glr_chart import GlrChart
from algorithms.drift.report import ALARM
from streamjobs.errors import ConfigError
from streamjobs.fit.recordings import Recordings, shuffled
from streamjobs.stages.population.reference import CLIP, DIRECTIONS, PopulationReference

SHRINK = 0.1  # of the covariance within recordings towards its diagonal
LEAST = 1e-3  # of a scaled row's variance, in every direction
GROUPS = 10  # of people, each left out together
STEPS = 24  # of the search for a limit
SURE = 3.0  # standard errors; with 2 the stated number was exceeded in 7 of 100 populations of 8 people, with 3 in 2 to 3
LOWEST, HIGHEST = 0.1, 1e4  # limits
WITHIN = 10  # windows, in which a change counts as found


class Alarms(NamedTuple):
    """What a limit is worth."""

    reference: PopulationReference
    rows: int  # of people left out
    false_alarms: int  # in them, each group of people by the limit of the others
    worst: float  # most of a person, over what is stated
    between: tuple[float, float]  # least and most of a group of as many new people, over what is stated
    most: str  # activity with the most false alarms; empty without any
    share: float  # of the false alarms that are in it
    changes: int  # from one activity to another, where a person's recordings come in a shuffled order
    found: int  # of these, within WITHIN windows, as above


class _Watched(NamedTuple):
    """Rows of a person left out, projected: what the detector tests, without what it names."""

    group: int
    X: Array  # (n, DIRECTIONS)
    activity: Array  # (n,)
    begins: Array  # first rows of what is watched apart
    changed: Array  # first rows of another activity


def learn_reference(
    data: Recordings, detector: GlrChart, between: float, *, progress: Callable[[], None] = lambda: None
) -> Alarms:
    """The reference for one false alarm in `between` rows; `progress` is called after each group of people, `steps` times.

    Raises ConfigError where the recordings have too few rows to count so few alarms.
    """
    order = np.argsort(data.recording, kind="stable")  # recordings of several people may come in turns
    data = data.of(order)
    part = np.cumsum(np.r_[True, (np.diff(data.recording) != 0) | (np.diff(data.activity) != 0)])
    apart, streams = [], []
    for group, people in enumerate(_groups(data)):
        inside = np.isin(data.person, people)
        usual = usual_of(data.X[~inside], part[~inside])
        for person in people.tolist():
            own = data.person == person
            begins = np.flatnonzero(np.r_[True, np.diff(part[own]) != 0])
            apart.append(_Watched(group, _projected(usual, data.X[own]), data.activity[own], begins, begins[:0]))
            stream = shuffled(data, own, [1, person, 0])
            changed = np.flatnonzero(np.diff(stream.activity) != 0) + 1
            streams.append(_Watched(group, _projected(usual, stream.X), stream.activity, begins[:1], changed))
        progress()
    limit = _limit(apart, detector, between)
    if limit is None:
        rows = sum(len(one.X) for one in apart)
        raise ConfigError(
            f"[drift] false_alarms: the people left out have {rows:,} windows, too few to count one alarm in {between:g}. "
            f"Allow one in {rows // 2:,} windows or more often, or fit with more recordings."
        )
    return _judged(apart, streams, detector, usual_of(data.X, part, limit)._replace(rows_between=between), data.names)


def steps(data: Recordings) -> int:
    """How often `learn_reference` calls `progress`."""
    return len(list(_groups(data)))


def usual_of(X: Array, part: Array, limit: float = 1.0) -> PopulationReference:
    """How rows of the same part of a recording differ, and in which directions all do most. X (n, width), part (n,).

    limit: of the likelihood ratio, which is 1 of rows projected so.
    """
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread[~(spread > 0)] = 1.0
    Z = np.clip((X - mean) / spread, -CLIP, CLIP)
    within = Z[1:] - Z[:-1]
    within = within[part[1:] == part[:-1]] / np.sqrt(2.0)
    covariance = within.T @ within / max(1, len(within))
    covariance = (1 - SHRINK) * covariance + SHRINK * np.diag(np.diag(covariance)) + LEAST * np.eye(len(mean))
    values, vectors = symmetric(covariance, len(covariance))
    whiten = vectors / np.sqrt(values)
    white = Z @ whiten
    white -= white.mean(axis=0)
    _, directions = symmetric(white.T @ white / len(white), white.shape[1])
    projection = np.zeros((len(mean), DIRECTIONS))
    most = directions[:, :DIRECTIONS]
    projection[:, : most.shape[1]] = whiten @ most / np.sqrt(limit)
    return PopulationReference(1.0, mean, spread, projection)


def _projected(usual: PopulationReference, X: Array) -> Array:
    return usual.rows(X)[:, :DIRECTIONS].copy()


def _groups(data: Recordings) -> Iterator[Array]:
    people = np.unique(data.person)
    for first in range(min(GROUPS, len(people))):
        yield people[first::GROUPS]


def _limit(watched: list[_Watched], detector: GlrChart, between: float) -> float | None:
    """The smallest limit that keeps one alarm in `between` rows; None where there are too few rows."""
    rows = np.array([len(person.X) for person in watched], float)
    if rows.sum() < between:
        return None
    low, high = LOWEST, HIGHEST
    for _ in range(STEPS):
        middle = np.sqrt(low * high)
        alarms = np.array([len(_alarms(person, detector, middle)) for person in watched], float)
        low, high = (low, middle) if _rate(alarms, rows) * between <= 1.0 else (middle, high)
    return float(high)


def _rate(alarms: Array, rows: Array) -> float:
    """Alarms a row of a new person, at most that by SURE standard errors; alarms, rows (people,)."""
    return float((alarms.sum() + 1.0) / rows.sum() + SURE * _error(alarms, rows))


def _error(alarms: Array, rows: Array) -> float:
    """Standard error of the ratio of alarms and rows (people,)."""
    people, total = len(rows), rows.sum()
    off = alarms - alarms.sum() / total * rows
    return float(np.sqrt((off**2).sum() * people / max(1, people - 1)) / total)


def _others(alarms: Array, rows: Array, between: float) -> tuple[float, float]:
    """Where the rate of as many other people is, over what is stated: theirs varies as much as the one that was counted."""
    mean = alarms.sum() / max(1.0, rows.sum())
    off = SURE * np.sqrt(2.0) * _error(alarms, rows)
    return max(0.0, float(mean - off) * between), float((alarms.sum() + 1.0) / rows.sum() + off) * between


def _alarms(person: _Watched, detector: GlrChart, limit: float) -> Array:
    """Rows at which the detector alarms, from a state that knows nothing at each of `begins`."""
    chart = replace(detector, limit=limit)
    n, dim = person.X.shape
    state, slots = chart.init(dim=dim, targets=0, seed=0), np.zeros(n, np.int64)
    slots[person.begins[1:]] = 1
    work, out = chart.workspace(state, slots=len(person.begins)), chart.outputs(n, dim, 0)
    chart.advance(work, np.cumsum(slots), person.X, np.zeros((n, 0)), out, np.full(n, LEARN, np.int8))
    return np.flatnonzero(out.features[:, ALARM] == 1)


def _judged(
    apart: list[_Watched], streams: list[_Watched], detector: GlrChart, reference: PopulationReference, names: list[str]
) -> Alarms:
    """Each group of people by the limit of the others."""
    between, changes, found = reference.rows_between, 0, 0
    alarms: list[int] = []  # of each person
    rows: list[int] = []
    doing = np.zeros(len(names), np.int64)  # alarms by activity
    for group in sorted({person.group for person in apart}):
        limit = _limit([person for person in apart if person.group != group], detector, between)
        if limit is None:
            continue
        for person, stream in zip(apart, streams, strict=True):
            if person.group != group:
                continue
            raised, at = _alarms(person, detector, limit), _alarms(stream, detector, limit)
            doing += np.bincount(person.activity[raised], minlength=len(names))
            alarms.append(len(raised))
            rows.append(len(person.X))
            changes += len(stream.changed)
            found += sum(bool(((at >= row) & (at < row + WITHIN)).any()) for row in stream.changed.tolist())
    if not rows:
        return Alarms(reference, 0, 0, 0.0, (0.0, 0.0), "", 0.0, 0, 0)
    each, of = np.array(alarms, float), np.array(rows, float)
    most, total = int(doing.argmax()), sum(alarms)
    which = (names[most], float(doing[most] / total)) if total else ("", 0.0)
    worst = float((each * between / of).max())
    return Alarms(reference, sum(rows), total, worst, _others(each, of, between), *which, changes, found)


def as_text(alarms: Alarms, stated: str) -> str:
    if not alarms.rows:
        return (
            f'[drift] reference = "population": false_alarms = "{stated}" is kept by all people together; there are too few '
            "windows to judge each person by the others."
        )
    times = alarms.false_alarms * alarms.reference.rows_between / alarms.rows
    found, (least, most) = alarms.found / max(1, alarms.changes), alarms.between
    often = f" Most are in {alarms.most} ({alarms.share:.0%})." if alarms.most else ""
    return (
        f'[drift] reference = "population": another group of as many people has {least:.1f} to {most:.1f} times the stated '
        f"false alarms ({stated}). These people, each left out, have {times:.2f} times, the worst of them "
        f"{alarms.worst:.1f} times.{often} Of {alarms.changes} changes of activity {found:.1%} are found within "
        f"{WITHIN} windows."
    )


def as_table(alarms: Alarms) -> dict[str, Any]:
    return {name: value for name, value in alarms._asdict().items() if name != "reference"} | {
        "rows_between": alarms.reference.rows_between
    }
