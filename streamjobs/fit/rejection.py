"""The threshold of [head] reject, learned from people who were left out, and what it does to activities nobody taught.

People are left out in a few groups. Scale, map and head learn from the others; then the windows of each person come as in
the report, and labels late. Distances of windows whose activity was taught give the threshold. For the figures an activity
is left out of what teaches as well: its windows have no labels then, and each person is judged by the threshold of the
other people.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.fit.learning import Recipe, decided, features, learned_from
from streamjobs.fit.recordings import LATE, Recordings, Stream, arriving, shuffled
from streamjobs.stages.reject import Rejection, distance, threshold

GROUPS = 5  # of people, for the threshold
GROUPS_EACH = 3  # for each activity left out


class LeftOut(NamedTuple):
    """An activity that was left out of what teaches."""

    activity: str
    windows: int
    unknown: float  # share of them
    known: float  # share of the windows of the other activities that were unknown too


class Judged(NamedTuple):
    """What a threshold is worth."""

    rejection: Rejection
    known: float  # share of windows of known activities that are unknown, each person judged by the others' threshold
    worst: float  # of a person
    right: float  # share of right decisions among the windows that are not unknown
    right_before: float  # the same of all windows
    activities: list[LeftOut]

    @property
    def unknown(self) -> float:
        """Share of windows of activities left out, the mean of the activities."""
        return float(np.mean([one.unknown for one in self.activities])) if self.activities else float("nan")


class _Windows(NamedTuple):
    """Windows of people left out."""

    distance: Array  # (n,)
    person: Array  # (n,)
    known: Array  # (n,) bool: the activity was taught
    right: Array  # (n,) bool


def learn_rejection(
    data: Recordings,
    recipe: Recipe,
    share: float,
    *,
    late: int = LATE,
    activities: bool = True,
    progress: Callable[[], None] = lambda: None,
) -> Judged:
    """The threshold that at most `share` of the windows of people left out exceeds.

    activities: whether each activity is left out in turn as well. `progress` is called after each group, `steps` times.
    """
    everybody = _left_out(data, recipe, None, GROUPS, late, progress)
    rejection = Rejection(share, threshold(everybody.distance, share))
    unknown = _crossed(everybody, share)
    people = [float(unknown[everybody.person == one].mean()) for one in np.unique(everybody.person)]
    left = []
    for absent in np.unique(data.activity).tolist() if activities and len(np.unique(data.activity)) > 2 else ():
        found = _left_out(data, recipe, absent, GROUPS_EACH, late, progress)
        said = _crossed(found, share)
        of_absent = said[~found.known]
        left.append(LeftOut(data.names[absent], len(of_absent), float(of_absent.mean()), float(said[found.known].mean())))
    kept = everybody.right[~unknown]
    return Judged(rejection, float(unknown.mean()), max(people), float(kept.mean()), float(everybody.right.mean()), left)


def steps(data: Recordings, *, activities: bool) -> int:
    """How often `learn_rejection` calls `progress`."""
    people, classes = len(np.unique(data.person)), len(np.unique(data.activity))
    return min(GROUPS, people) + (classes * min(GROUPS_EACH, people) if activities and classes > 2 else 0)


def _left_out(
    data: Recordings, recipe: Recipe, absent: int | None, groups: int, late: int, progress: Callable[[], None]
) -> _Windows:
    """The windows of all people, each left out with its group; absent: an activity that nobody teaches."""
    people = np.unique(data.person)
    parts = []
    for group in range(min(groups, len(people))):
        inside = people[group :: min(groups, len(people))]
        teaches = ~np.isin(data.person, inside)
        if absent is not None:
            teaches &= data.activity != absent
        kept = [c for c in range(len(data.names)) if c != absent]
        column = np.full(len(data.names), -1)
        column[kept] = np.arange(len(kept))
        others = shuffled(data, teaches, [0, group, *([] if absent is None else [absent])])
        learned = learned_from(others._replace(activity=column[others.activity]), recipe, len(kept))
        for person in inside.tolist():
            stream = shuffled(data, data.person == person, [1, person, 0], late)
            parts.append(_of_person(recipe, learned, stream, column, person))
        progress()
    return _Windows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _of_person(recipe: Recipe, learned: Any, stream: Stream, column: Array, person: int) -> _Windows:
    """column: the head's column of each activity, -1 for the one that was not taught."""
    truth = column[stream.activity]
    rows, label = arriving(len(truth), stream.late)
    taught = ~(label & (truth[rows] < 0))  # labels of the absent activity do not come
    columns = stream._replace(activity=np.maximum(truth, 0))
    said = decided(recipe, "gated", learned, columns, features(learned, recipe, stream.X), (rows[taught], label[taught]))
    return _Windows(distance(said.scores, said.chosen), np.full(len(truth), person), truth >= 0, said.chosen == truth)


def _crossed(found: _Windows, share: float) -> Array:
    """(n,) bool: unknown by the threshold of the known windows of all other people."""
    unknown = np.zeros(len(found.person), bool)
    for person in np.unique(found.person):
        own = found.person == person
        unknown[own] = found.distance[own] > threshold(found.distance[~own & found.known], share)
    return unknown


def as_text(judged: Judged) -> str:
    """For the report of `fit`."""
    share, above = judged.rejection
    lines = [
        f"[head] reject = {share:g}: windows whose scores are further than {above:.4g} from any answer are unknown.",
        f"That are {judged.known:.1%} of the windows of somebody new (worst person {judged.worst:.1%}); of the others "
        f"{judged.right:.1%} are right, of all {judged.right_before:.1%}.",
    ]
    if judged.activities:
        ranked = sorted(judged.activities, key=lambda one: -one.unknown)
        each = ", ".join(f"{one.activity} {one.unknown:.1%}" for one in ranked)
        lines.append(
            f"Of activities that nobody taught, each left out in turn, {judged.unknown:.1%} of the windows are unknown: "
            f"{each}."
        )
    return "\n".join(lines)


def as_table(judged: Judged) -> dict[str, Any]:
    """For programs."""
    return {
        "share": judged.rejection.share,
        "above": judged.rejection.above,
        "known": judged.known,
        "worst_person": judged.worst,
        "right": judged.right,
        "right_of_all": judged.right_before,
        "activities_left_out": [one._asdict() for one in judged.activities],
    }
