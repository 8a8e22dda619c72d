"""Evaluates a population for new people: leaves each person out in turn and learns from all others."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.fit.inner import calibration_error, learn_transitions, left_out
from streamjobs.fit.learning import Learned, Recipe, Start, Way, convolved, decided, features, learned_from
from streamjobs.fit.recordings import LATE, Recordings, Stream, Worth, controls, in_order, shuffled, worth

BIN = 20  # windows of a point of accuracy over time
SHUFFLES = 3
Runs = dict[str, dict[tuple[int, int], tuple[Array, Array, Worth]]]  # way -> (person, shuffle) -> (decisions, truth, worth)


class Protocol(NamedTuple):
    """How new people are served, to evaluate a population."""

    shuffles: int = SHUFFLES  # of each person's recordings; 0: their own order
    late: int = LATE  # windows
    progress: Callable[[], None] = lambda: None  # called after each order
    classes: int | None = None  # that are taught, the first of the names; None: all
    lived: Recordings | None = None  # windows of the new people; None: those of `data`


def leave_one_out(
    data: Recordings,
    ways: Sequence[Way],
    *,
    shuffles: int = SHUFFLES,
    people: Sequence[int] | None = None,
    late: int = LATE,
    progress: Callable[[], None] = lambda: None,
    lived: Recordings | None = None,
) -> Runs:
    """The decisions of every way and control for every person and order; `progress` is called after each order.

    people: those to leave out; None: all. All ways have the convolutions of the first. lived: their windows as a worker cuts
    them; None: those that teach.
    """
    runs: Runs = {}
    protocol = Protocol(shuffles, late, progress, lived=lived)
    for person in np.unique(data.person).tolist() if people is None else people:
        _serve(runs, data, data.person != person, ways, protocol, [0, person])
    return runs


def runs_of_new_people(data: Recordings, teaches: Array, ways: Sequence[Way], protocol: Protocol) -> Runs:
    """The same for the people who do not teach, all served by those who do. teaches: (n,) bool, of windows."""
    runs: Runs = {}
    _serve(runs, data, teaches, ways, protocol, [0])
    return runs


def _serve(runs: Runs, data: Recordings, teaches: Array, ways: Sequence[Way], protocol: Protocol, seed: list[int]) -> None:
    """Adds the runs of the people who do not teach. seed: of the order in which the others' recordings teach."""
    late, classes = protocol.late, protocol.classes or len(data.names)
    new = protocol.lived
    data, numbers = convolved(data, teaches, ways[0].recipe.convolving)
    rest = data.of(teaches)._replace(names=data.names[:classes])
    others = shuffled(data, teaches, seed)
    learned: dict[str, Learned] = {}  # by population: several ways may share one
    for way in ways:
        if way.recipe.population not in learned:
            learned[way.recipe.population] = learned_from(others, way.recipe, classes)
    recipes = {way.name: filter_learned(rest, way.recipe, learned[way.recipe.population], late, way.start) for way in ways}
    for person in np.unique(data.person[~teaches]).tolist():
        served = data if new is None else new
        own = served.person == person
        for shuffle in range(max(1, protocol.shuffles)):
            stream = shuffled(served, own, [1, person, shuffle], late) if protocol.shuffles else in_order(served, own, late)
            known, arrivals = _of_taught(stream, classes)
            X = stream.X if stream.unlabelled is None else np.vstack([stream.X, stream.unlabelled.X])
            if new is not None and numbers is not None:
                X = numbers.learned.replaced(X, numbers.samples, numbers.dim)
            decisions, Z, probability = controls(stream, len(data.names)), dict[str, Array](), dict[str, Array]()
            for way in ways:
                which = way.recipe.population
                if which not in Z:
                    Z[which] = features(learned[which], way.recipe, X)
                found = decided(recipes[way.name], way.start, learned[which], known, Z[which], arrivals)
                decisions[way.name] = found.chosen
                if way.recipe.filter is not None:
                    probability[way.name] = found.scores[np.arange(len(found.chosen)), found.chosen]
            for name, chosen in decisions.items():
                figures = worth(chosen, stream)._replace(probability=probability.get(name), recording=stream.recording)
                runs.setdefault(name, {})[person, shuffle] = (chosen, stream.activity, figures)
            protocol.progress()


def _of_taught(stream: Stream, classes: int) -> tuple[Stream, tuple[Array, Array]]:
    """The stream without activities that no one taught, and its windows and labels: theirs do not come."""
    rows, label = stream.arrivals()
    come = ~(label & (stream.activity[rows] >= classes))
    return stream._replace(activity=np.minimum(stream.activity, classes - 1)), (rows[come], label[come])


def filter_learned(data: Recordings, recipe: Recipe, learned: Learned, late: int, start: Start = "gated") -> Recipe:
    """The recipe with the numbers of its filter; learned: from all people of `data`."""
    if recipe.filter is None:
        return recipe
    learned = learned._replace(directions=None, joint=0)  # they know labels: of the people left out here too
    inner = list(left_out(data, recipe, learned, features(learned, recipe, data.X), late, start))
    return replace(recipe, filter=replace(learn_transitions(inner, recipe.filter.stated), hop=recipe.filter.hop))


def calibration(runs: Runs, name: str) -> float | None:
    """Expected calibration error of all windows of a way; None where its scores are not probabilities."""
    found = [(figures.probability, chosen == truth) for chosen, truth, figures in runs[name].values()]
    probabilities = [probability for probability, _ in found if probability is not None]
    if not probabilities:
        return None
    return calibration_error(np.concatenate(probabilities), np.concatenate([right for _, right in found]))


def by_person(runs: Runs, name: str, figure: str) -> Array:
    """The figure of each person, as the mean of the shuffles: (people,)."""
    people = sorted({person for person, _ in runs[name]})
    values = {key: getattr(one[2], figure) for key, one in runs[name].items()}
    return np.array([mean_of([v for (person, _), v in values.items() if person == p]) for p in people])


def mean_of(values: Sequence[float] | Array) -> float:
    """The mean of the finite values; NaN without any."""
    known = np.asarray(values)[np.isfinite(values)]
    return float(np.mean(known)) if known.size else float("nan")


def table(title: str, data: Recordings, runs: Runs, late: int = LATE) -> str:
    """The figures as text; a person without a fresh window in the second half does not count there."""
    people, n = len(np.unique(data.person)), len(data.X)
    lines = [
        f"{title}: {people} people, {len(data.names)} activities, {n} windows, labels {late} windows late",
        f"{'':38}{'all':>6}{'half':>6}{'F1':>6}{'fresh':>6}{'fr.half':>8}{'sd':>6}{'worst':>6}{'w.half':>7}",
    ]
    for name in runs:
        every, half = by_person(runs, name, "all"), by_person(runs, name, "half")
        f1, fresh, later = (by_person(runs, name, one) for one in ("f1", "fresh", "fresh_half"))
        lines.append(
            f"{name:38}{every.mean():6.3f}{half.mean():6.3f}{f1.mean():6.3f}{fresh.mean():6.3f}{mean_of(later):8.3f}"
            f"{every.std():6.3f}{every.min():6.3f}{half.min():7.3f}"
        )
    return "\n".join(lines)


def accuracy_over_time(rights: Sequence[Array], bin: int = BIN) -> Array:
    """Share of right decisions in every `bin` windows, up to the median length of the runs."""
    lengths = sorted(len(right) for right in rights)
    shares = []
    for begin in range(0, lengths[len(lengths) // 2] - bin + 1, bin):
        shares.append(np.mean([right[begin : begin + bin].mean() for right in rights if len(right) >= begin + bin]))
    return np.array(shares)


def confusion(runs: Runs, name: str, classes: int) -> Array:
    """(classes, classes) counts of windows by true and decided class, over all people and shuffles, decided ones only."""
    matrix = np.zeros((classes, classes))
    for chosen, truth, _ in runs[name].values():
        known = chosen >= 0
        np.add.at(matrix, (truth[known], chosen[known]), 1)
    return matrix
