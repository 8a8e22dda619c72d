"""One against the rest: a binary learner for every class, as one learner with the scores of all classes.

Source: Rifkin, Klautau (2004), In defense of one-vs-all classification, JMLR 5:101-141.
Symbols: K = classes.
Cost of a row: K times the binary learner's; the binary learner's alone where all classes share what it stores.
State: that of the binary learner, K times side by side, or once with K columns of weights.
Readings: the target of a class is +1 in its own rows and -1 in all others, whether labels come as 0/1 or -1/+1; a row with
a target missing is unlabelled for all. The largest score is the class. Every class begins with the same seed, so that
random features are the same for all. Learners with targets that are binary problems on one support anyway (`binary_targets`)
run with K targets and evaluate the kernel once a row; of any other a key and a class are a slot of one workspace, and rows
go through its loop once for each class, in one call. The loss is the sum over the classes, `admitted` and `evicted` say
whether any class stored the row or let one go.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.protocol import NO_BASIS, Array, Basis, Learner, Outputs, State, reject, require, unknown
from algorithms.common.workspace import Composite, Together, Workspace, numbered, states_of

MOST_CLASSES = 1024
CHUNK_NUMBERS = 1 << 18  # most numbers of the rows that go through together, 2 MB
_CLASS = "class_"


class SharedState(NamedTuple):
    learner: State  # of the binary learner, with a target for each class


class OneVsRestWork(Together):
    """States of many keys and classes in one workspace; of a class, `class_0`, .. shows the slots of all keys.

    A key's slot for a class is number * slots + slot: the slots of a class lie together.
    """

    def __init__(self, together: Workspace, classes: int) -> None:
        each = [Workspace((), together.names, together.stored) for _ in range(classes)]
        super().__init__((f"{_CLASS}{number}" for number in range(classes)), each)
        self.together = together
        self._show()

    def _show(self) -> None:
        each = self.together.slots // len(self.parts)
        for number, one in enumerate(self.parts):
            one.arrays = tuple(array[number * each : (number + 1) * each] for array in self.together.arrays)

    def grow(self, slots: int) -> None:
        """Make room for more keys; what is stored stays with its key and class."""
        held, classes, grown = self.slots, len(self.parts), []
        for array in self.together.arrays:
            larger = np.zeros((classes, slots, *array.shape[1:]), array.dtype)
            larger[:, :held] = array.reshape(classes, held, *array.shape[1:])
            grown.append(larger.reshape(classes * slots, *array.shape[1:]))
        self.together.arrays = tuple(grown)
        self._show()


@dataclass(frozen=True, slots=True, kw_only=True)
class OneVsRest(Composite, Learner):
    """Classification with a binary learner for each class; the predicted class is the class with the highest score.

    Raises SettingError for a learner that does not classify, and for a composite one, which goes around this one.

    >>> from algorithms import learner_from
    >>> learner = learner_from("one_vs_rest", {"learner": {"name": "pa"}})
    >>> X, Y = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]], [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    >>> state, out = learner.run(learner.init(dim=2, targets=3, seed=0), X, Y)
    >>> out.prediction.shape, learner.predict(state, X).argmax(axis=1)
    ((3, 3), array([0, 1, 0]))
    """

    kind: ClassVar[str] = "classification"

    learner: Learner  # binary, one that classifies
    classes: int = 0  # 0: as many as there are targets

    def __post_init__(self) -> None:
        require(self, "classes", 0 <= self.classes <= MOST_CLASSES, f"0 to {MOST_CLASSES}")
        learner, own = self.learner, type(self.learner).__name__
        if learner.kind != "classification":
            reject(self, "learner", "a learner that classifies, such as pegasos, or knlms with loss = 'hinge'", own)
        parts = [getattr(learner, field.name) for field in fields(learner)]  # type: ignore[arg-type]
        if any(isinstance(part, Learner) for part in parts):
            reject(self, "learner", "a single learner; an extractor goes in front, in a chain", own)
        if learner.begins_from_population:
            reject(self, "learner", "a binary learner; this one takes all classes by itself", own)

    def __getattr__(self, name: str) -> Learner:
        numbered(name, _CLASS)  # the parts of a composite's state have learners of their names
        return self.learner

    @property
    def shares(self) -> bool:
        """Whether all classes share what the binary learner stores."""
        return bool(getattr(self.learner, "binary_targets", False))

    @property
    def carries(self) -> bool:
        return bool(getattr(self.learner, "carries", False))

    @property
    def bounded(self) -> bool:
        return self.learner.bounded

    def init(self, *, dim: int, targets: int, seed: int) -> State:
        """Raises SettingError where the targets are not the classes."""
        if not 1 <= targets <= MOST_CLASSES or (self.classes and targets != self.classes):
            reject(self, "classes", f"the number of targets ({targets}, at most {MOST_CLASSES}), or 0", self.classes)
        if self.shares:
            return SharedState(self.learner.init(dim=dim, targets=targets, seed=seed))
        return states_of(targets, _CLASS)(*(self.learner.init(dim=dim, targets=1, seed=seed) for _ in range(targets)))

    def dim(self, state: State) -> int:
        return self.learner.dim(state[0])

    def targets(self, state: State) -> int:
        return self.learner.targets(state.learner) if self.shares else len(state)

    def workspace(self, state: State, *, slots: int = 1, extra: int = 0) -> Any:
        if self.shares:
            return Composite.workspace(self, state, slots=slots, extra=extra)
        longest = {field: max((getattr(own, field) for own in state), key=len) for field in self.learner.stored}
        like = state[0]._replace(**longest)
        return OneVsRestWork(self.learner.workspace(like, slots=slots * len(state), extra=extra), len(state))

    def budget_used(self, work: Any, like: State, slots: Array) -> float:
        parts = zip(like._fields, like, strict=True)
        return float(np.mean([self.learner.budget_used(getattr(work, field), own, slots) for field, own in parts]))

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        n, classes = out.prediction.shape
        width = self.learner.width_for(X.shape[1])
        if self.shares and width == 0:
            self.learner.loop(work.learner, slots, X, Y, learn, out, basis)
            return
        chunk = max(1, CHUNK_NUMBERS // (classes * max(1, X.shape[1], width, basis.transfer.shape[1] ** 2)))
        for first in range(0, n, chunk):
            rows = slice(first, min(n, first + chunk))
            turning = NO_BASIS if basis is NO_BASIS or not len(basis.moved) else Basis(*(part[rows] for part in basis))
            chunked = Outputs(*(array[rows] for array in out))
            chosen = slots[rows], X[rows], Y[rows], learn[rows]
            if self.shares:  # its features are its own
                own = chunked._replace(features=unknown((len(chosen[0]), width)))
                self.learner.loop(work.learner, *chosen, own, turning)
            else:
                self._chunk(work, *chosen, chunked, turning)

    def _chunk(
        self, work: OneVsRestWork, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis
    ) -> None:
        n, classes = out.prediction.shape
        sides = unknown((n, classes))
        known = np.isfinite(Y).all(axis=1)
        sides[known] = np.where(Y[known] > 0.0, 1.0, -1.0)
        places = (slots[:, None] + work.slots * np.arange(classes)).ravel()
        each = self.learner.outputs(n * classes, X.shape[1], 1)
        turning = Basis(*(np.repeat(part, classes, axis=0) for part in basis)) if len(basis.moved) else basis
        again = np.repeat(X, classes, axis=0), sides.reshape(-1, 1), np.repeat(learn, classes)
        self.learner.loop(work.together, places, *again, each, turning)
        out.prediction[:] = each.prediction.reshape(n, classes)
        out.loss[:] = each.loss.reshape(n, classes).sum(axis=1)
        out.admitted[:] = each.admitted.reshape(n, classes).max(axis=1)
        out.evicted[:] = each.evicted.reshape(n, classes).max(axis=1)
