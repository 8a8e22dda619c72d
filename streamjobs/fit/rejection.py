"""The measures and threshold of [head] reject, learned from people left out, and what they do to activities no one taught.

People are left out in a few groups. Scale, map and head learn from the others; then the windows of each person come as in
the report, and labels late. Windows of activities in the training give the measures and the threshold, for which each
person's windows are measured by those of the other people. For the figures each group is judged by what a population of the
other people alone learns, as new people are. An activity is left out of what teaches as well: its windows have no labels
then, and each person is judged by the threshold of the other people for the share that new people had.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from algorithms.common.workspace import packed
from streamjobs.fit.learning import Learned, Recipe, decided, features, learned_from, scaling_from
from streamjobs.fit.recordings import LATE, Recordings, Stream, arriving, shuffled
from streamjobs.stages.population.reject import MEASURES, SCORES, Measures, Rejection, distance, measured, threshold

SEED = 0  # of the order in which everybody's recordings teach the scale, as in `population_of`
GROUPS = 5  # of people, for the threshold
GROUPS_EACH = 3  # for each activity left out
GROUPS_OF_SAID = 10  # of what was said of people left out: each is measured by the others
SPREAD = 0.03  # of the scores' mean variance, added to each: classes that are never mistaken for another have none
RIDGE = 1e-6  # of a column's mean square, added to it
LEAST = 1e-12  # for what has no spread at all
USUAL = 0.95  # share of the known windows of a class that a measure's usual value is not exceeded by
BORROWED = 200  # windows of all classes that stand next to those of one
FURTHEST = 1e6  # of sums of logarithms: further is as far
_NO_FACTOR = np.zeros(1)  # of rows without a number


class Said(NamedTuple):
    """What was said of windows of people left out, and of what they are."""

    scores: Array  # (n, classes) that decided, or the head's where a filter follows
    chosen: Array  # (n,) column
    leverage: Array  # (n,) in the windows that taught
    truth: Array  # (n,) column, -1 for an activity that was not taught
    person: Array  # (n,)

    def of(self, which: Array) -> "Said":
        return Said(*(column[which] for column in self))


def factor_of(X: Array) -> Array:
    """Lower triangle by rows of F, F F' = n (A'A + ridge)^-1 for A = [X, 1], X (n, width) scaled.

    The leverage of n windows falls as 1 / n; times n it is the same for the parts of the people and for all of them.
    """
    A = np.hstack([X, np.ones((len(X), 1))])
    gram = A.T @ A
    mean = float(np.trace(gram)) / len(gram)
    gram[np.diag_indices_from(gram)] += RIDGE * (np.diag(gram) + mean) + LEAST
    inverse = np.linalg.inv(gram)
    return packed(np.linalg.cholesky(len(X) * (inverse + inverse.T) / 2))


def leverages(factor: Array, X: Array, classes: int) -> Array:
    """The third measure (n,) of scaled windows X (n, width), by the loop that a worker runs."""
    nothing, ones = np.zeros((classes, classes)), np.ones((len(MEASURES), classes))
    alone = Measures(nothing, nothing, factor, ones)
    found, _ = measured(alone, np.zeros((len(X), classes)), np.zeros(len(X), np.int64), X)
    return np.ascontiguousarray(found[:, -1])


def learn_measures(known: Said, factor: Array = _NO_FACTOR) -> Measures:
    """Measures from known windows; factor: of the windows that taught, absent where `sums` is all they are for."""
    classes = known.scores.shape[1]
    means, scatter = np.eye(classes), np.zeros((classes, classes))  # a class without windows is where it should be
    for c in np.unique(known.truth).tolist():
        own = known.scores[known.truth == c]
        means[c] = own.mean(axis=0)
        scatter += (own - means[c]).T @ (own - means[c])
    scatter /= max(1, len(known.truth))
    scatter[np.diag_indices(classes)] += SPREAD * float(np.trace(scatter)) / classes + LEAST
    inverse = np.linalg.inv(scatter)
    whitening = np.ascontiguousarray(np.linalg.cholesky((inverse + inverse.T) / 2))
    measures = Measures(whitening, np.ascontiguousarray(means @ whitening), factor, np.ones((len(MEASURES), classes)))
    return measures._replace(usual=_usual(values(measures, known), known.chosen, classes))


def values(measures: Measures, said: Said) -> Array:
    """The measures (n, 3) of windows; their leverage is what it was in the windows that taught without their person."""
    nowhere = np.zeros((len(said.chosen), measures.width))
    found, _ = measured(measures, said.scores, said.chosen, nowhere)
    return np.column_stack([found[:, : SCORES + 1], said.leverage])


def sums_of_logs(measures: Measures, said: Said) -> Array:
    """Sum of the measures' logarithms (n,), as a worker takes it."""
    with np.errstate(divide="ignore"):
        logs = np.log(values(measures, said) / measures.usual[:, said.chosen].T)
    return np.asarray(np.clip(logs.sum(axis=1), -FURTHEST, FURTHEST))


def _usual(found: Array, chosen: Array, classes: int) -> Array:
    """(3, classes) quantiles of the measures found (n, 3) by the class chosen, shrunk to those of all classes."""
    everywhere = np.quantile(found, USUAL, axis=0)
    usual = np.tile(everywhere[:, None], classes)
    for c in range(classes):
        own = found[chosen == c]
        if len(own):
            usual[:, c] = (len(own) * np.quantile(own, USUAL, axis=0) + BORROWED * everywhere) / (len(own) + BORROWED)
    return np.asarray(np.maximum(usual, LEAST))


class LeftOut(NamedTuple):
    """An activity that was left out of what teaches."""

    activity: str
    windows: int
    unknown: float  # share of them
    by_answer: float  # the same by the distance of the scores from an answer alone, a control
    known: float  # share of the windows of the other activities that were unknown too


class Judged(NamedTuple):
    """What a threshold is worth."""

    rejection: Rejection
    known: float  # share of windows of known activities that are unknown, each person judged by what the others alone learn
    worst: float  # of a person
    right: float  # share of right decisions among the windows that are not unknown
    right_before: float  # the same of all windows
    activities: list[LeftOut]
    people: list[float]  # of each person the share of windows of activities left out that are unknown, mean of activities

    @property
    def unknown(self) -> float:
        """Share of windows of activities left out, the mean of the activities."""
        return _mean([one.unknown for one in self.activities])

    @property
    def by_answer(self) -> float:
        """The same by the distance of the scores from an answer alone."""
        return _mean([one.by_answer for one in self.activities])


def _mean(shares: Sequence[float]) -> float:
    return float(np.mean(shares)) if shares else float("nan")


def learn_rejection(
    data: Recordings,
    recipe: Recipe,
    share: float,
    *,
    late: int = LATE,
    activities: bool = True,
    progress: Callable[[], None] = lambda: None,
) -> Judged:
    """The measures of windows, and the threshold that at most `share` of the windows of people left out exceeds.

    activities: whether each activity is left out in turn as well. `progress` is called after each group, `steps` times.
    """
    everybody = _left_out(data, recipe, None, late, progress)
    above, unknown = _unlike(everybody, share)
    if activities and len(np.unique(data.person)) > 2:
        unknown = _of_new_people(data, recipe, share, everybody, late, progress)
    learned = learn_measures(everybody, _factor_of_all(data, recipe))
    rejection = Rejection(share, above, learned, of_head=recipe.filter is not None)
    people = [float(unknown[everybody.person == one].mean()) for one in np.unique(everybody.person)]
    left, by_person, met = [], dict[int, list[float]](), float(unknown.mean())
    for absent in np.unique(data.activity).tolist() if activities and len(np.unique(data.activity)) > 2 else ():
        found = _left_out(data, recipe, absent, late, progress)
        known, (_, said) = found.truth >= 0, _unlike(found, met)
        control = crossed(found.person, known, distance(found.scores, found.chosen), met)
        for one in np.unique(found.person[~known]).tolist():
            by_person.setdefault(one, []).append(float(said[~known & (found.person == one)].mean()))
        shares = (float(part.mean()) for part in (said[~known], control[~known], said[known]))
        left.append(LeftOut(data.names[absent], int((~known).sum()), *shares))
    right = everybody.chosen == everybody.truth
    figures = met, max(people), float(right[~unknown].mean()), float(right.mean())
    return Judged(rejection, *figures, left, [_mean(shares) for shares in by_person.values()])


def _of_new_people(
    data: Recordings, recipe: Recipe, share: float, everybody: Said, late: int, progress: Callable[[], None]
) -> Array:
    """What is unknown (n,) bool of `everybody`, each group by the measures and the threshold of all others, as `fit` learns
    them without the group: with fewer people to learn from, and so with larger measures, than the group is served by."""
    unknown = np.zeros(len(everybody.truth), bool)
    for fold in folds(data, None):
        others = _left_out(data.of(fold.teaches), recipe, None, late, progress)
        own = np.isin(everybody.person, fold.people)
        unknown[own] = sums_of_logs(learn_measures(others), everybody.of(own)) > threshold(_apart(others), share)
    return unknown


def _factor_of_all(data: Recordings, recipe: Recipe) -> Array:
    """Of everybody's windows, on everybody's scale."""
    everybody = shuffled(data, np.ones(len(data.person), bool), [SEED])
    return factor_of(recipe.scaled(scaling_from(everybody, recipe), everybody.X))


def steps(data: Recordings, *, activities: bool) -> int:
    """How often `learn_rejection` calls `progress`."""
    people, classes = len(np.unique(data.person)), len(np.unique(data.activity))
    inner = sum(min(GROUPS, people - len(fold.people)) for fold in folds(data, None)) if activities and people > 2 else 0
    return min(GROUPS, people) + inner + (classes * min(GROUPS_EACH, people) if activities and classes > 2 else 0)


class Fold(NamedTuple):
    """A group of people left out."""

    people: Array  # those left out
    teaches: Array  # (n,) bool: windows of the others, without the absent activity
    column: Array  # (activities,) the head's column of each activity, -1 of the absent one
    classes: int  # columns


def folds(data: Recordings, absent: int | None) -> Iterator[Fold]:
    """All people, in a few groups; absent: an activity that no one teaches."""
    people, most = np.unique(data.person), GROUPS if absent is None else GROUPS_EACH
    kept = [c for c in range(len(data.names)) if c != absent]
    column = np.full(len(data.names), -1)
    column[kept] = np.arange(len(kept))
    for group in range(min(most, len(people))):
        inside = people[group :: min(most, len(people))]
        teaches = ~np.isin(data.person, inside)
        if absent is not None:
            teaches &= data.activity != absent
        yield Fold(inside, teaches, column, len(kept))


def _left_out(data: Recordings, recipe: Recipe, absent: int | None, late: int, progress: Callable[[], None]) -> Said:
    """The windows of all people, each left out with its group; absent: an activity that no one teaches."""
    parts = []
    for group, fold in enumerate(folds(data, absent)):
        others = shuffled(data, fold.teaches, [0, group, *([] if absent is None else [absent])])
        learned = learned_from(others._replace(activity=fold.column[others.activity]), recipe, fold.classes)
        factor = factor_of(recipe.scaled(learned.scaling, others.X))
        for person in fold.people.tolist():
            stream = shuffled(data, data.person == person, [1, person, 0], late)
            parts.append(_of_person(recipe, learned, factor, stream, fold.column, person))
        progress()
    return Said(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _of_person(recipe: Recipe, learned: Learned, factor: Array, stream: Stream, column: Array, person: int) -> Said:
    """column: the head's column of each activity, -1 for the one that was not taught."""
    truth = column[stream.activity]
    rows, label = arriving(len(truth), stream.late)
    taught = ~(label & (truth[rows] < 0))  # labels of the absent activity do not come
    columns = stream._replace(activity=np.maximum(truth, 0))
    said = decided(recipe, "gated", learned, columns, features(learned, recipe, stream.X), (rows[taught], label[taught]))
    leverage = leverages(factor, recipe.scaled(learned.scaling, stream.X), said.scores.shape[1])
    scores = said.scores if recipe.filter is None else np.ascontiguousarray(said.out.prediction)
    return Said(scores, said.chosen, leverage, truth, np.full(len(truth), person))


def _unlike(found: Said, share: float) -> tuple[float, Array]:
    """The threshold of the known windows, and what is unknown (n,) bool: each person judged as if no one knew him.

    Who is judged is measured by all others, and their threshold comes of each of them measured by the rest.
    """
    known, unknown = found.truth >= 0, np.zeros(len(found.truth), bool)
    for own in _groups(found.person):
        others = found.of(~own & known)
        unknown[own] = sums_of_logs(learn_measures(others), found.of(own)) > threshold(_apart(others), share)
    return threshold(_apart(found.of(known)), share), unknown


def _apart(known: Said) -> Array:
    """Sums of the measures' logarithms (n,), each person's by the windows of the others."""
    sums, groups = np.empty(len(known.person)), list(_groups(known.person))
    for own in groups:
        sums[own] = sums_of_logs(learn_measures(known.of(~own) if len(groups) > 1 else known), known.of(own))
    return sums


def _groups(person: Array) -> Iterator[Array]:
    """(n,) bool: the windows of a person, or of several where there are many people."""
    people = np.unique(person)
    for first in range(min(GROUPS_OF_SAID, len(people))):
        yield np.isin(person, people[first::GROUPS_OF_SAID])


def crossed(person: Array, known: Array, value: Array, share: float) -> Array:
    """(n,) bool: above the threshold of the known windows of all other people. person, known, value: (n,)."""
    unknown = np.zeros(len(value), bool)
    for one in np.unique(person):
        own = person == one
        unknown[own] = value[own] > threshold(value[~own & known], share)
    return unknown


def as_text(judged: Judged) -> str:
    lines = [
        f"[head] reject = {judged.rejection.share:g}: windows that resemble no known activity are unknown.",
        f"Of a new person's windows {judged.known:.1%} are unknown (worst person {judged.worst:.1%}). Of the others, "
        f"{judged.right:.1%} are right; of all windows, {judged.right_before:.1%}.",
    ]
    if judged.activities:
        ranked = sorted(judged.activities, key=lambda one: -one.unknown)
        each = ", ".join(f"{one.activity} {one.unknown:.1%}" for one in ranked)
        lines.append(
            f"Of activities that were not taught, each left out in turn, {judged.unknown:.1%} of the windows are unknown "
            f"(by the scores' distance from an answer alone {judged.by_answer:.1%}): {each}."
        )
        lowest, median, highest = np.quantile(judged.people, (0, 0.5, 1))
        lines.append(
            f"For a single person it is {lowest:.1%} to {highest:.1%}, median {median:.1%}: new people differ as much."
        )
    return "\n".join(lines)


def as_table(judged: Judged) -> dict[str, Any]:
    return {
        "share": judged.rejection.share,
        "above": judged.rejection.above,
        "known": judged.known,
        "worst_person": judged.worst,
        "right": judged.right,
        "right_of_all": judged.right_before,
        "people_of_activities_left_out": judged.people,
        "activities_left_out": [one._asdict() for one in judged.activities],
    }
