"""Which statistics, convolutions, map and filter recognise new people best: `streamjobs fit --choose`.

Each person is left out in turn, and convolutions, scale, map and head are learned from all others. The numbers of a filter,
and the choice that is applied to a person, follow from the figures of the others: the estimate counts what choosing
costs. Nothing is chosen that recognises fewer windows than a linear head.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.blas import ONE_THREAD
from algorithms.common.protocol import Array
from algorithms.heads.gated_rls import GatedRls
from streamjobs.fit.inner import Inner, corrected, filtered, learn_transitions, served
from streamjobs.fit.learning import Learned, Recipe, convolved, scaling_from
from streamjobs.fit.least_squares import head_of, learn_directions, sums_of
from streamjobs.fit.recordings import Recordings, shuffled, worth
from streamjobs.stages import statistics
from streamjobs.stages.population.directions import Directions, joint_of
from streamjobs.stages.smoothing import Smoothing

CONVOLUTIONS = 200
PROTOTYPES = {"name": "random_prototypes", "budget": 300}
SMOOTH = 0.3
FEW = (200, 128, 64)  # directions, for maps of more than twice as many as the second: states of about 16, 12 and 8 KB
STRONG = 0.01  # `delta` compared with the job's for a linear head: few people teach many numbers better with a larger ridge
MOST_STATE = 250_000  # bytes of a person with labels; larger candidates are compared, and chosen where none has directions
CLOSE = 0.01  # of accuracy: the cheapest candidate may be this far below the best
FILTERS = ("smooth", "hmm")
SAMPLES = "samples"  # a kind of rows, in a job without windows


class Candidate(NamedTuple):
    statistics: str
    map: str
    filter: str
    convolutions: int = 0
    directions: int = 0
    delta: float = 0.0  # of the head; 0: the job's own

    @property
    def name(self) -> str:
        more = "+convolutions" if self.convolutions else ""
        few = f" in {self.directions}" if self.directions else ""
        ridge = f", delta {self.delta:g}" if self.delta else ""
        return f"{self.statistics}{more}, {self.map}{few}{ridge}, {self.filter}"


class Judged(NamedTuple):
    """A candidate on people left out, (people,) each."""

    candidate: Candidate
    every: Array  # shares of right windows
    half: Array  # of the second half
    fresh: Array  # before the first label of a recording
    width: int  # numbers the head sees
    state_bytes: int  # of a person with labels


class Choice(NamedTuple):
    judged: list[Judged]  # linear candidates first, those with fewer numbers before those with more
    best: Judged
    cheapest: Judged  # within CLOSE of the best
    estimate: Array  # (people,) shares of right windows, each by the candidate that the others choose
    fresh: Array  # (people,) the same, before the first label of a recording


Columns = dict[tuple[str, int], slice]  # by statistics and the number of convolutions


def columns_of(kind: str, dim: int, convolutions: int = 0) -> Columns:
    """The columns of each set of numbers in rows of `kind`, of `dim` channels, with convolutions behind them."""
    if kind == SAMPLES:
        return {(kind, 0): slice(None)}
    rich = statistics.width("rich", dim)
    columns: Columns = {("rich", 0): slice(0, rich)}
    if kind == statistics.BOTH:
        columns["gravity", 0] = slice(rich, statistics.width(kind, dim))
        columns[kind, 0] = slice(0, statistics.width(kind, dim))
    if convolutions:
        columns[kind, convolutions] = slice(None)
    return columns


def choose(
    data: Recordings,
    columns: Columns,
    recipe: Recipe,
    late: int,
    progress: Callable[[], None] = lambda: None,
    switch: float = 0.0,
    few: bool = True,
) -> Choice:
    """Compare all candidates; recipe: with the map of the prototypes; switch: the job's own chance of one, 0: none.

    few: whether directions are compared too. `progress` is called after each person and set.
    """
    judged: list[Judged] = []
    scores: dict[Candidate, list[Inner]] = {}
    widths: dict[Candidate, int] = {}
    last = list(columns)[-1]
    for person in np.unique(data.person).tolist():
        whole, _ = convolved(data, data.person != person, recipe.convolving)
        for kind, own in columns.items():
            part = whole._replace(X=np.ascontiguousarray(whole.X[:, own]))
            counts, deltas = (FEW if few else (), (0.0, STRONG)) if kind == last else ((), (0.0,))
            for name, count, delta, inner, width in _left_out(part, person, recipe, late, counts, deltas):
                one = Candidate(kind[0], name, "", kind[1], count, delta)
                scores.setdefault(one, []).append(inner)
                widths[one] = width
            progress()
    for one, people in scores.items():
        size = _state_bytes(recipe.head, widths[one], len(data.names), joint_of(one.directions))
        for follows in FILTERS:
            every, half, fresh = np.array(_figures(people, follows, switch)).T
            judged.append(Judged(one._replace(filter=follows), every, half, fresh, widths[one], size))
    judged.sort(key=lambda one: (one.candidate.map != "linear", one.width))
    return _chosen(judged)


def _chosen(judged: list[Judged]) -> Choice:
    few = any(one.candidate.directions for one in judged)
    small = [one for one in judged if not few or one.state_bytes <= MOST_STATE]
    every = np.array([one.every for one in small])
    best = small[_best(every)]
    near = [one for one in small if one.every.mean() >= best.every.mean() - CLOSE]
    cheapest = min(near, key=lambda one: (one.state_bytes, -one.every.mean()))
    people = every.shape[1]
    by_others = [_best(np.delete(every, person, axis=1)) for person in range(people)]
    estimate = np.array([every[which, person] for person, which in enumerate(by_others)])
    fresh = np.array([small[which].fresh[person] for person, which in enumerate(by_others)])
    return Choice(judged, best, cheapest, estimate, fresh)


def _state_bytes(head: GatedRls, width: int, classes: int, joint: int) -> int:
    """Of a person with labels, without the population's weights where snapshots leave them out."""
    state = head.from_population(head.init(dim=width, targets=classes, seed=0)._replace(seen=1), joint)
    return head.bytes_of(state) - sum([int(getattr(state, field).nbytes) for field in head.constant(state)])


def _best(every: Array) -> int:
    """The row with the highest mean; of equal ones the first, which is linear where there is one."""
    return int(every.mean(axis=1).argmax())


def _left_out(
    data: Recordings, person: int, recipe: Recipe, late: int, few: Sequence[int], deltas: Sequence[float]
) -> list[tuple[str, int, float, Inner, int]]:
    """A person's scores by the heads of the others on each map, in so many directions and with each `delta` of the head,
    and how many numbers it sees.

    few: numbers of directions, the largest first, for maps of many numbers; the directions of each begin those of the next.
    """
    assert recipe.map is not None
    others = shuffled(data, data.person != person, [0, person])
    scaling = scaling_from(others, recipe)
    X = recipe.scaled(scaling, others.X)
    order = np.random.default_rng(0).permutation(len(X))
    mapping = recipe.map.state_after(X[order], seed=0)
    whole = np.hstack([X, _coordinates(recipe.map, mapping, X)])
    assert others.person is not None
    classes, people = len(data.names), others.person
    sums = sums_of(whole, others.activity, classes)
    own = shuffled(data, data.person == person, [1, person, 0], late)
    mine = recipe.scaled(scaling, own.X)
    seen = np.hstack([mine, _coordinates(recipe.map, mapping, mine)])
    width, total = X.shape[1], whole.shape[1]
    which = {"linear": np.arange(width), "prototypes": np.arange(width, total), "both": np.arange(total)}
    found = []
    for name, columns in which.items():
        counts: Sequence[int] = (0,)
        stream = own._replace(X=np.ascontiguousarray(seen[:, columns]))
        if few and classes <= few[-1] and len(columns) > max(few[0], 2 * few[-2]):
            counts = (0, *few)
            all_ = learn_directions(whole[:, columns], others.activity, people, few[0], 1 / recipe.teacher.delta)
            turned = all_.rows(stream.X)
        for count in counts:
            part = sums.of(columns)
            if count:
                kept = Directions(all_.matrix[:, :count], all_.offset[:count])
                part = sums.of(columns).through(kept)
                stream = own._replace(X=np.ascontiguousarray(turned[:, :count]))
            for delta in deltas if name == "linear" and not count else deltas[:1]:
                ridge = replace(recipe, head=replace(recipe.head, delta=delta or recipe.head.delta))
                learned = Learned(scaling, None, head_of(ridge.teacher, [part]), others.people, joint=joint_of(count))
                served_ = served(ridge, "gated", learned, stream, person)
                found.append((name, count, delta, served_, count or len(columns)))
    return found


def _coordinates(mapping: Any, state: Any, X: Array) -> Array:
    """What `transform` gives of rows X (n, width) on PROTOTYPES, to rounding, in a fifth of the time."""
    samples, square = state.prototypes, X.shape[1]  # of the Gaussian kernel

    def kernel(rows: Array) -> Array:
        gaps = np.square(rows).sum(axis=1)[:, None] + np.square(samples).sum(axis=1) - 2.0 * (rows @ samples.T)
        return np.asarray(np.exp(np.maximum(gaps, 0.0) / (-2.0 * square)))

    with ONE_THREAD:
        factor = np.linalg.cholesky(kernel(samples) + mapping.ridge * np.eye(len(samples)))
        return np.asarray(kernel(X) @ np.linalg.inv(factor).T)


def _figures(people: list[Inner], follows: str, switch: float) -> list[tuple[float, float, float]]:
    """Shares of right windows of each person, the numbers of a filter learned from the others."""
    figures = []
    for number, one in enumerate(people):
        if follows == "hmm":
            others = [other for at, other in enumerate(people) if at != number]
            scores = corrected(learn_transitions(others, switch), one)
        else:
            scores = filtered(Smoothing(smooth=SMOOTH), one.scores)
        said = worth(scores.argmax(axis=1), one.stream)
        figures.append((said.all, said.half, said.fresh))
    return figures


def tables_of(candidate: Candidate, table: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The sections of a job file that a candidate changes; task: settings of the head, kept as they are."""
    follows = {"filter": "hmm"} if candidate.filter == "hmm" else {"smooth": SMOOTH}
    if candidate.filter != "hmm":
        task = {name: value for name, value in task.items() if name != "lasts"}
    if candidate.delta:
        task = {**task, "delta": candidate.delta}
    window: dict[str, Any] = {}
    if "window" in table:
        window = {"window": {**table["window"], "statistics": candidate.statistics}}
        more = candidate.convolutions or "convolutions" in table["window"]
        window["window"] |= {"convolutions": candidate.convolutions} if more else {}
    few: dict[str, dict[str, Any]] = {"population": {"directions": candidate.directions}} if candidate.directions else {}
    if candidate.map == "linear":
        return {**window, **few, "learner": {"name": "rls", **task, **follows}}
    also = {"input": True} if candidate.map == "both" else {}
    return {**window, **few, "learner": {**PROTOTYPES, **also}, "head": {"name": "rls", **task, **follows}}


def as_text(choice: Choice) -> str:
    """The table, and what follows from it."""
    lines = [f"{'each person left out in turn':60}{'all':>7}{'half':>7}{'fresh':>7}{'worst':>7}{'numbers':>9}{'state':>9}"]
    for one in choice.judged:
        means = "".join(f"{np.nanmean(column):7.3f}" for column in (one.every, one.half, one.fresh))
        lines.append(
            f"{one.candidate.name:60}{means}{one.every.min():7.3f}{one.width:9}{f'{one.state_bytes / 1000:.0f} KB':>9}"
        )
    every, fresh = choice.estimate, float(np.nanmean(choice.fresh))
    lines.append(f"{'chosen by the others':60}{every.mean():7.3f}{'':7}{fresh:7.3f}{every.min():7.3f}")
    return "\n".join(lines)


def with_map(recipe: Recipe, mapping: Any) -> Recipe:
    """The recipe with the map of the candidates and scores as the head gives them."""
    return replace(recipe, map=mapping, input=False, smooth=0.0, filter=None)
