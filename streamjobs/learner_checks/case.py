"""One learner under check, with what fits it: the length of x, the targets, the form of labels, and streams by its kind."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algorithms import Learner, Outputs
from algorithms.common.protocol import NO_BASIS, Array, Basis
from algorithms.common.workspace import Workspace

EXTREMES = (1e300, -1e300, 1e155, 1e-300, -5e-324, 0.0)


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
        return easy(self.kind, n or self.rows, self.dim, self._columns, self.labels, seed)

    def hostile(self, n: int, seed: int = 2) -> tuple[Array, Array]:
        """Ever farther and ever new samples, whole stretches of the same sample, and targets that fit nothing."""
        random = np.random.default_rng(seed)
        X, Y = self.stream(n, seed)
        X = X + np.linspace(0, 50, n)[:, None] * random.standard_normal((n, X.shape[1]))
        X[n // 3 : n // 2] = X[n // 3]
        if self.kind == "classification":
            Y = Y[random.permutation(n)]
        elif self._columns:
            Y = Y * random.standard_normal(Y.shape) * 10
        return X, Y

    def extreme(self) -> tuple[Array, Array]:
        """Ordinary rows with the largest and smallest numbers between them, alone, all over, and with such targets."""
        X, Y = self.stream(40 + 6 * len(EXTREMES), seed=3)
        row = 40
        for number in EXTREMES:
            X[row, 0] = number
            X[row + 2] = number
            if self.kind == "regression":
                Y[row + 3] = number
                X[row + 5], Y[row + 5] = number, -number
            row += 6
        return X, Y

    def outliers(self, seed: int) -> tuple[Array, Array]:
        """80 rows, ordinary ones, and between them some far out, close to zero, zero or repeated, and such targets."""
        random, n = np.random.default_rng(seed), 80
        X, Y = self.stream(n, seed)
        for row in random.choice(n, n // 5, replace=False).tolist():
            size = 10.0 ** random.uniform(1, (4, 9, 60, 300)[seed % 4])
            match random.integers(5):
                case 0:
                    X[row] *= size
                case 1:
                    X[row] /= size
                case 2:
                    X[row : row + 2] = [[size], [0.0]][: n - row]
                case 3:
                    X[row] = X[random.integers(n)]
                case 4 if self.kind == "regression":
                    Y[row] *= size
        return X, Y

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

    def ran(
        self, work: Workspace, slot: int, like: Any, X: Array, Y: Array, learn: Any = None, basis: Basis = NO_BASIS
    ) -> tuple[Any, Outputs]:
        """The rows through the learner for the key in a slot, as `Learner.run`. like: a state of the learner."""
        out = self.advance(work, slot, X, Y, learn, basis)
        return self.learner.save(work, slot, like), out

    @property
    def _columns(self) -> int:
        return self.learner.targets(self.init())


def easy(kind: str, n: int, dim: int, targets: int, labels: str, seed: int) -> tuple[Array, Array]:
    """X (n, dim) and Y (n, targets) that every learner of the kind should learn.

    Samples lie near a closed curve, or are a watched value that shifts halfway.
    """
    random = np.random.default_rng(seed)
    if kind == "drift":
        return watched(n, n // 2, seed, dim), np.zeros((n, 0))
    X = curve(n, dim, random)
    if kind == "features":
        return X, np.zeros((n, 0))
    if kind == "regression":
        return X, X @ _directions(dim, targets) + 0.02 * random.standard_normal((n, targets))
    X += 0.0  # classes are the sides of planes through the origin, samples close to a plane are moved off it
    scores = X @ _directions(dim, targets)
    if targets == 1:
        sides = np.where(scores >= 0, 1.0, -1.0)
        return X + 0.3 * sides * _directions(dim, 1).T, sides
    best = scores.argmax(axis=1)
    X = X + 0.3 * _directions(dim, targets).T[best]
    return X, np.where(np.arange(targets) == best[:, None], 1.0, 0.0 if labels == "onehot" else -1.0)


def curve(n: int, dim: int, random: np.random.Generator) -> Array:
    """Samples on a closed curve, every coordinate about unit size, with a little noise."""
    angle = random.uniform(0, 2 * np.pi, (n, 1))
    waves, phases = 1 + np.arange(dim) // 2, np.arange(dim) * np.pi / 2
    samples: Array = np.sqrt(2.0) * np.cos(waves * angle + phases) + 0.02 * random.standard_normal((n, dim))
    return samples


def places(n: int, dim: int, second: bool, seed: int) -> Array:
    """Samples at two places that a few features describe well; the second two are far from the first two."""
    random = np.random.default_rng(seed)
    center = 1.5 * _directions(dim, 2)[:, int(second)]
    return np.where(random.random((n, 1)) < 0.5, center, -center) + 0.05 * random.standard_normal((n, dim))


def watched(n: int, shift_at: int, seed: int, dim: int = 1) -> Array:
    """An LS error (n, 1): about .1, and from row `shift_at` on about .6; or as many such columns."""
    random = np.random.default_rng(seed)
    values = 0.1 + 0.03 * np.abs(random.standard_normal((n, dim)))
    values[shift_at:] += 0.5
    return values


def other_targets(kind: str, Y: Array, seed: int) -> Array:
    """Targets that differ from Y in every row."""
    if kind == "classification":
        return -Y if Y.shape[1] == 1 else np.roll(Y, 1, axis=1)
    return Y + 1.0 + np.random.default_rng(seed).random(Y.shape)


def _directions(dim: int, targets: int) -> Array:
    """Orthogonal unit columns (as far as there are dimensions), the same in every stream."""
    W = np.random.default_rng(7).standard_normal((dim, targets))
    orthogonal = np.linalg.qr(W)[0]
    return orthogonal if targets <= dim else W / np.linalg.norm(W, axis=0)
