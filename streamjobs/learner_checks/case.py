"""One learner under check, with what fits it: the length of x, the targets, the form of labels, its streams."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algorithms import Learner, Outputs
from algorithms.common.protocol import NO_BASIS, Array, Basis
from algorithms.common.workspace import Workspace
from streamjobs.learner_checks import streams


@dataclass(frozen=True)
class Case:
    name: str  # in the registry
    learner: Learner
    settings: dict[str, Any] = field(default_factory=dict)
    dim: int = 3
    targets: int = 1
    labels: str = "signs"  # of several classes: "signs" (-1/+1) or "onehot"
    rows: int = 150  # of a stream long enough for everything in the learner to happen

    @property
    def kind(self) -> str:
        return self.learner.kind

    def init(self, seed: int = 0) -> Any:
        return self.learner.init(dim=self.dim, targets=self.targets, seed=seed)

    def stream(self, n: int | None = None, seed: int = 1) -> tuple[Array, Array]:
        return streams.easy(self.kind, n or self.rows, self.dim, self._columns, self.labels, seed)

    def hostile(self, n: int, seed: int = 2) -> tuple[Array, Array]:
        return streams.hostile(self.kind, n, self.dim, self._columns, self.labels, seed)

    def extreme(self, seed: int = 3) -> tuple[Array, Array]:
        return streams.extreme(self.kind, self.dim, self._columns, self.labels, seed)

    def outliers(self, seed: int) -> tuple[Array, Array]:
        return streams.outliers(self.kind, 80, self.dim, self._columns, self.labels, seed)

    def trained(self, n: int | None = None, seed: int = 4) -> Any:
        """A state in the middle of its life."""
        return self.learner.run(self.init(seed), *self.stream(n, seed))[0]

    def workspace(self, states: list[Any], extra: int, slots: int | None = None) -> Workspace:
        """States in slots 0, 1, ..; room for `extra` more rows of each where a learner is unbounded."""
        held = max((len(getattr(state, field)) for state in states for field in self.learner.stored[:1]), default=0)
        work = self.learner.workspace(states[0], slots=slots or len(states), extra=extra + held)
        for slot, state in enumerate(states):
            self.learner.load(work, slot, state)
        return work

    def advance(
        self, work: Workspace, slots: Any, X: Array, Y: Array, learn: Any = None, basis: Basis = NO_BASIS
    ) -> Outputs:
        """The rows through the learner, row n for the key in slots[n] (one number: all for that key)."""
        n = len(X)
        out = self.learner.outputs(n, self.dim, self.learner.targets(self.init()))
        # Copies, because broadcast arrays are read-only, which is another type to numba: it would compile once more.
        keys = np.array(np.broadcast_to(slots, n), np.int64)
        flags = None if learn is None else np.array(np.broadcast_to(learn, n), np.int8)
        self.learner.advance(work, keys, np.array(X, float), np.array(Y, float), out, flags, basis)
        return out

    @property
    def _columns(self) -> int:
        return self.learner.targets(self.init())
