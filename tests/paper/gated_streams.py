"""One person's stream through a shared, frozen map and a head of the person's own, labels late."""

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from algorithms import Learner, learner_from
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, PREDICT_ONLY
from algorithms.heads.gated import GatedRls
from algorithms.heads.smoothing import Smoothing
from streamjobs.core.books import Books, targets_of
from tests.paper.late_labels import LATE, Stream

SCALING = learner_from("scaling", {"clip": 5.0})
HEAD = {"intercept": True, "delta": 100.0, "forgetting": 1.0}


@dataclass(frozen=True)
class Way:
    """How a new person is served: by which map and which head, begun from what."""

    name: str
    map: str  # a name in MAPS
    head: str = "gated"  # gated, frozen (the population's), adapted (without the gate), cold
    smooth: float = 0.3


MAPS: dict[str, Learner | None] = {
    "linear": None,
    "ald 300": learner_from("ald", {"above": 0.1, "budget": 300}),
    "ald 100": learner_from("ald", {"above": 0.1, "budget": 100}),
    "random 300": learner_from("random_prototypes", {"budget": 300}),
    "okfeb r 50 B 100": learner_from("okfeb", {"role": "head", "rank": 50, "budget": 100}),
}


class Learned(NamedTuple):
    """What other people's windows taught, all of it frozen from now on."""

    scaling: Any
    map: Any
    head: Any  # state of `rls`


@dataclass
class Costs:
    """Microseconds a row, by what was done."""

    seconds: dict[str, float] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def add(self, what: str, seconds: float, rows: int) -> None:
        self.seconds[what] = self.seconds.get(what, 0.0) + seconds
        self.rows[what] = self.rows.get(what, 0) + rows

    def microseconds(self, what: str) -> float:
        return 1e6 * self.seconds[what] / self.rows[what]


def population(others: Stream, mapping: Learner | None, classes: int, scaling: Any) -> Learned:
    """Map, then head on the map that stands still, each in one pass over all windows of the others.

    The map sees the windows shuffled one by one: a dictionary that is full after a few recordings knows no others.
    """
    X = SCALING.transform(scaling, others.X)
    state = None
    if mapping is not None:
        order = np.random.default_rng(0).permutation(len(X))
        state, _ = mapping.run(mapping.init(dim=X.shape[1], targets=0, seed=0), X[order])
    Z = X if mapping is None else mapping.transform(state, X)
    rls = learner_from("rls", HEAD)
    head, _ = rls.run(
        rls.init(dim=Z.shape[1], targets=classes, seed=0), Z, targets_of(others.activity.astype(float), classes)
    )
    return Learned(scaling, state, head)


def scale_of(others: Stream) -> Any:
    return SCALING.run(SCALING.init(dim=others.X.shape[1], targets=0, seed=0), others.X)[0]


def features(learned: Learned, mapping: Learner | None, stream: Stream, costs: Costs, name: str) -> np.ndarray:
    X = SCALING.transform(learned.scaling, stream.X)
    if mapping is None:
        return X
    begin = time.process_time()
    Z = mapping.transform(learned.map, X)
    costs.add(f"{name}: features of a window", time.process_time() - begin, len(X))
    return Z


def begun(way: Way, learned: Learned) -> tuple[Learner, Any]:
    """The head and the state that a new person starts with."""
    head = learner_from("gated_rls", {**HEAD, "gate": way.head == "gated"})
    assert isinstance(head, GatedRls)
    if way.head == "cold":
        dim, targets = learned.head.weights.shape
        return head, head.init(dim=dim, targets=targets, seed=0)
    return head, head.from_population(learned.head)


def decided(way: Way, learned: Learned, stream: Stream, Z: np.ndarray, costs: Costs) -> tuple[np.ndarray, np.ndarray]:
    """The class decided for each window (-1 none) and the adapted head's share in it."""
    n, classes = len(Z), learned.head.weights.shape[1]
    head, state = begun(way, learned)
    rows, late = arriving(n)
    codes = np.where(late, stream.activity[rows], np.nan)
    learn = np.where(late, PREDICT_ONLY if way.head == "frozen" else LEARN_HEAD, LEARN_EXTRACTOR).astype(np.int8)
    slots = np.zeros(2 * n - LATE, np.int64)
    X, Y = np.ascontiguousarray(Z[rows]), targets_of(codes, classes)

    out = head.outputs(len(rows), Z.shape[1], classes)
    work = head.workspace(state)
    head.load(work, 0, state)
    begin = time.process_time()
    head.advance(work, slots, X, Y, out, learn)
    if way.head == "gated":
        costs.add(f"{way.map}: gated head, a window and a label", time.process_time() - begin, n)

    smoothing = Smoothing(smooth=way.smooth)
    scores = smoothing.advance(smoothing.workspace(smoothing.init(targets=classes)), slots, out.prediction, learn)
    books = Books(classes=classes)
    known = books.init()
    if way.head != "cold":
        known = known._replace(labelled=np.ones(classes, np.int64))
    work = books.workspace(known)
    books.load(work, 0, known)
    chosen, _ = books.decide(work, slots, scores, codes, np.where(late, LEARN, PREDICT_ONLY).astype(np.int8))
    return chosen[~late], out.features[~late, 0]


def arriving(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Window by window, and behind each the label of the window LATE before: (window of each row, is it a label)."""
    rows, late = np.empty(2 * n, np.int64), np.tile([False, True], n)
    rows[0::2], rows[1::2] = np.arange(n), np.arange(n) - LATE
    return rows[rows >= 0], late[rows >= 0]
