"""A learner and its state, for rows that come one by one: `run` would load and save the state in each call.

For estimators and notebooks; a worker keeps the states of many keys in one workspace instead. The numbers are those of
`run`, bit for bit.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from algorithms.common.protocol import LEARN, PREDICT_ONLY, Array, Learner, Outputs, State
from algorithms.common.protocol import _matrix as matrix

FIRST_ROOM = 64  # rows an unbounded learner gets at first; then its room doubles


class Online:
    """One key's learner at work. It copies what it is given, and can be pickled: as learner and state.

    state: what it begins from, `learner.init(...)` or an earlier `state`.

    >>> from algorithms import learner_from
    >>> lms = learner_from("lms", {"step_size": 0.5})
    >>> online = Online(lms, lms.init(dim=1, targets=1, seed=0))
    >>> online.run([[1.0]], [[2.0]]).loss, online.predict([[3.0]])
    (array([4.]), array([[3.]]))
    """

    __slots__ = ("_dim", "_left", "_like", "_targets", "_work", "learner")

    def __init__(self, learner: Learner, state: State) -> None:
        self.learner = learner
        self._dim, self._targets = learner.dim(state), learner.targets(state)
        self._begin(state, FIRST_ROOM)

    def _begin(self, state: State, extra: int) -> None:
        self._like: Any = state
        self._work: Any = self.learner.workspace(state, slots=1, extra=extra)
        self._left = extra  # rows an unbounded learner still has room for
        self.learner.load(self._work, 0, state)

    @property
    def state(self) -> State:
        """A copy of the state as it is now."""
        return self.learner.save(self._work, 0, self._like)

    def run(self, X: ArrayLike, Y: ArrayLike | None = None) -> Outputs:
        """Test-then-train over the rows of X (n, dim), Y (n, targets) with NaN where unknown, None = all unknown.

        Raises ValueError for other shapes.
        """
        return self._advance(X, Y, LEARN)

    def transform(self, X: ArrayLike) -> Array:
        """Features (n, width) of the rows of X (n, dim); nothing is learned."""
        return self._advance(X, None, PREDICT_ONLY).features

    def predict(self, X: ArrayLike) -> Array:
        """Predictions (n, targets) for the rows of X (n, dim); nothing is learned."""
        return self._advance(X, None, PREDICT_ONLY).prediction

    def _advance(self, X: ArrayLike, Y: ArrayLike | None, learn: int) -> Outputs:
        name, learner = type(self.learner).__name__, self.learner
        rows = matrix(name, "X", X, self._dim)
        n = len(rows)
        wanted = np.full((n, self._targets), np.nan) if Y is None else matrix(name, "Y", Y, self._targets, n)
        if learn and not learner.bounded:
            if n > self._left:
                state = self.state
                held = sum(len(getattr(state, field)) for field in learner.stored[:1])
                self._begin(state, max(n, held, FIRST_ROOM))
            self._left -= n
        out = learner.outputs(n, self._dim, self._targets)
        learner.advance(self._work, np.zeros(n, np.int64), rows, wanted, out, np.full(n, learn, np.int8))
        return out

    def __getstate__(self) -> tuple[Learner, State]:
        return self.learner, self.state

    def __setstate__(self, held: tuple[Learner, State]) -> None:
        self.__init__(*held)  # type: ignore[misc]
