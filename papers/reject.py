"""Windows of activities nobody taught that [head] reject finds, and of known ones that it rejects: `fit`'s own figures.

python -m papers reject [--quick] [--third]

Beside them the control of few lines: the largest probability of a random forest on the same windows, with a threshold by the
same rule. --quick: a linear head alone, no forest. --third: the set that nothing was chosen on alone, a linear head.
Without --quick also a linear head on rich and gravity statistics with a filter, as `init` writes it.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from papers.activity_choice import BOTH, LINEAR
from papers.activity_population import SETS
from papers.common import options
from papers.gated_streams import way
from papers.recordings import daily, phone, watch
from streamjobs.fit.evaluation import filter_learned
from streamjobs.fit.learning import learned_from
from streamjobs.fit.recordings import LATE, Recordings, shuffled
from streamjobs.fit.rejection import SEED, Judged, as_text, crossed, folds, learn_rejection
from streamjobs.stages.population.reject import measured

SHARE = 0.05
TREES = 100
FILTERED: dict[str, Callable[[], Recordings]] = {
    "watch": partial(watch, BOTH, mirrored=True),
    "phone": partial(phone, BOTH),
    "daily": partial(daily, BOTH),
}


def main(arguments: list[str] | None = None) -> int:
    given = options("reject", __doc__, arguments, quick="a linear head alone", third="the set that chose nothing")
    quick = given.quick or given.third
    for title, read in {"daily": daily}.items() if given.third else SETS.items():
        data = read()
        for name in ("linear",) if quick else ("linear", "ald 300"):
            judged = learn_rejection(data, way(name, name).recipe, SHARE)
            print(f"{title}, {name}, gated:\n{as_text(judged)}\n{_cost(judged, data):.1f} us a window\n", flush=True)
        if not given.quick:
            print(f"{title}, linear, with a filter:\n{_with_filter(FILTERED[title]())}\n", flush=True)
        if not quick:
            print(f"{title}, largest probability of a random forest: {_forest(data)}\n", flush=True)
    return 0


def _with_filter(data: Recordings) -> str:
    everybody = learned_from(shuffled(data, np.ones(len(data.X), bool), [SEED]), LINEAR, len(data.names))
    return as_text(learn_rejection(data, filter_learned(data, LINEAR, everybody, LATE), SHARE))


def _cost(judged: Judged, data: Recordings) -> float:
    """Microseconds of the processor a window, the least of several runs."""
    assert judged.rejection.measures is not None
    rng, classes, taken = np.random.default_rng(0), len(data.names), []
    scores = rng.normal(size=(len(data.X), classes))
    for _ in range(6):
        begin = time.process_time()
        measured(judged.rejection.measures, scores, scores.argmax(axis=1), data.X)
        taken.append(time.process_time() - begin)
    return 1e6 * min(taken) / len(data.X)


def _forest(data: Recordings) -> str:
    """What it rejects of known windows, and of each activity that was left out."""
    said = [f"{_found(data, None)[0]:.1%} of known windows"]
    shares = [_found(data, absent)[1] for absent in range(len(data.names))]
    each = ", ".join(f"{name} {share:.1%}" for name, share in zip(data.names, shares, strict=True))
    return f"{said[0]}, {np.mean(shares):.1%} of activities nobody taught: {each}"


def _found(data: Recordings, absent: int | None) -> tuple[float, float]:
    """Shares of known and of other windows that are unknown."""
    value = np.empty(len(data.X))
    for fold in folds(data, absent):
        forest = RandomForestClassifier(TREES, min_samples_leaf=2, random_state=0)
        forest.fit(data.X[fold.teaches], data.activity[fold.teaches])
        inside = np.isin(data.person, fold.people)
        value[inside] = -forest.predict_proba(data.X[inside]).max(axis=1)
    known = data.activity != (-1 if absent is None else absent)
    unknown = crossed(data.person, known, value, SHARE)
    return float(unknown[known].mean()), float(unknown[~known].mean()) if absent is not None else float("nan")
