"""The ways a new person is served by a shared, frozen map, as the figures compare them, and what each costs."""

import time
from collections.abc import Sequence

import numpy as np

from algorithms import Learner, learner_from
from algorithms.common.protocol import LEARN_EXTRACTOR, LEARN_HEAD
from algorithms.heads.gated_rls import GatedRls
from streamjobs.fit.learning import Recipe, Start, Way, features, learned_from, scores_of
from streamjobs.fit.recordings import Recordings, arriving, shuffled
from streamjobs.stages.class_counts import targets_of

SCALING = learner_from("scaling", {"clip": 5.0})
HEAD = GatedRls(intercept=True, delta=100.0, forgetting=1.0)
MAPS: dict[str, Learner | None] = {
    "linear": None,
    "ald 300": learner_from("ald", {"above": 0.1, "budget": 300}),
    "ald 100": learner_from("ald", {"above": 0.1, "budget": 100}),
    "random 300": learner_from("random_prototypes", {"budget": 300}),
    "okfeb r 50 B 100": learner_from("okfeb", {"role": "head", "rank": 50, "budget": 100}),
}


def way(name: str, mapping: str, start: Start = "gated", smooth: float = 0.3) -> Way:
    """A person served by the map of that name."""
    return Way(name, Recipe(SCALING, MAPS[mapping], HEAD, smooth), start)


def costs(data: Recordings, names: Sequence[str]) -> dict[str, float]:
    """Microseconds a window, on one person's windows: of these maps' features, and of the head with a label each."""
    person = int(data.person[0])
    others, stream = shuffled(data, data.person != person, [0]), shuffled(data, data.person == person, [1])
    rows, label = arriving(len(stream.X))
    Y = targets_of(np.where(label, stream.activity[rows], np.nan), len(data.names))
    learn = np.where(label, LEARN_HEAD, LEARN_EXTRACTOR).astype(np.int8)
    taken = {}
    for name in names:
        recipe = way(name, name).recipe
        learned = learned_from(others, recipe, len(data.names))
        begin = time.process_time()
        Z = features(learned, recipe, stream.X)
        taken[f"{name}: scale and features of a window"] = time.process_time() - begin
        begin = time.process_time()
        scores_of(recipe, "gated", learned, Z[rows], Y, learn)
        taken[f"{name}: gated head, a window and a label"] = time.process_time() - begin
    return {what: 1e6 * seconds / len(stream.X) for what, seconds in taken.items()}
