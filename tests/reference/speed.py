"""The SPEED family as the paper prints it, in plain NumPy: every map by eigh again, every distance again."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algorithms.common.protocol import Array


def gaussian(A: Array, B: Array) -> Array:
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2) / 2)


def eigenmap(K: Array, rank: int) -> tuple[Array, Array]:
    """Psi = Lambda^(-1/2) V' (19) and its right inverse V Lambda^(1/2) (34), of the leading pairs."""
    values, vectors = np.linalg.eigh(K)
    keep = np.argsort(-values)[:rank]
    keep = keep[values[keep] > 1e-12 * values.max()]
    roots, V = np.sqrt(values[keep]), vectors[:, keep]
    return V.T / roots[:, None], V * roots


def novel(X: Array, threshold: float) -> Array:
    """The rows at least sqrt(threshold) away from each one taken before, in order."""
    taken: list[Array] = []
    for x in X:
        if not taken or min(((x - z) ** 2).sum() for z in taken) >= threshold:
            taken.append(x)
    return np.array(taken)


def relative_error(K: Array, guess: Array) -> float:
    """The normalized Frobenius norm of Fig. 2 (39)."""
    return float(np.sqrt(np.mean((np.abs(K - guess) / np.abs(K)) ** 2)))


def subspace_distance(K: Array, A1: Array, A2: Array) -> float:
    """Root of the sum of squared principal angles (40) between Phi A1 and Phi A2, A'KA = I of both.

    From the sines, which keep the small angles that cosines lose: they are the lengths of what is left of U2 by U1.
    """
    rest = A2 - A1 @ (A1.T @ K @ A2)
    sines2 = np.linalg.eigvalsh(rest.T @ K @ rest)
    return float(np.sqrt((np.arcsin(np.sqrt(np.clip(sines2, 0, 1))) ** 2).sum()))


@dataclass
class Filter:
    """One row at a time through `learn`; the head's settings as the learner names them."""

    rank: int
    first: int  # rows the first map is made from
    novelty: float = 0.0
    grows: bool = True
    budget: int = 0
    evict: str = "lru"
    transfer: str = "exact"
    order: str = "map_first"
    head: str = "lms"
    step_size: float = 0.1
    forgetting: float = 1.0
    delta: float = 100.0
    transition: float = 1.0
    state_noise: float = 1e-4
    D: Array | None = None  # dictionary
    used: list[int] = field(default_factory=list)
    waiting: list[Any] = field(default_factory=list)
    seen: int = 0

    def phi(self, x: Array) -> Array:
        return self.psi @ gaussian(self.D, x[None])[:, 0]

    def gaps2(self, x: Array) -> Array:
        return ((self.D - x) ** 2).sum(axis=1)

    def learn(self, x: Array, y: Array) -> tuple[Array, float]:
        """Prediction and LS error before the row is learned, NaN while there is no map."""
        self.seen += 1
        if self.D is None:
            self.waiting.append((x, y))
            if len(self.waiting) == self.first:
                self.begin()
            return np.full(len(y), np.nan), np.nan
        z = self.phi(x)
        outputs = self.w.T @ z, 1 - z @ z
        nearest = int(self.gaps2(x).argmin())
        self.used[nearest] = self.seen
        enters = self.grows and self.gaps2(x)[nearest] >= self.novelty
        if enters and self.budget and len(self.D) == self.budget and self.evict == "stop":
            enters = False
        if enters and self.order == "map_first":
            self.follow(x, nearest)
            self.update(x, y)
        else:
            self.update(x, y)
            if enters:
                self.follow(x, nearest)
        return outputs

    def begin(self) -> None:
        X = np.array([x for x, _ in self.waiting])
        self.D = novel(X, self.novelty) if self.novelty else X
        self.used = [0] * len(self.D)
        self.psi, self.inverse = eigenmap(gaussian(self.D, self.D), self.rank)
        self.w, self.P = np.zeros((len(self.psi), len(self.waiting[0][1]))), self.delta * np.eye(len(self.psi))
        for number, (x, y) in enumerate(self.waiting, start=1):
            self.used[int(self.gaps2(x).argmin())] = number
            self.update(x, y)

    def update(self, x: Array, y: Array) -> None:
        """Alg. 1, 2, 3."""
        z = self.phi(x)
        e = y - self.w.T @ z
        if self.head == "lms":
            self.w = self.w + self.step_size * np.outer(z, e)
            return
        g = self.P @ z / (self.forgetting + z @ self.P @ z)
        self.w = self.w + np.outer(g, e)
        self.P = (self.P - np.outer(g, z @ self.P)) / self.forgetting
        if self.head == "exrls":
            A = self.transition * np.eye(len(z))
            self.w = A @ self.w
            self.P = A @ self.P @ A.T + self.forgetting * self.state_noise * np.eye(len(z))

    def follow(self, x: Array, nearest: int) -> None:
        """Alg. 4 with a dictionary that samples may leave: the preimage (38) of w, by a row more and perhaps others less."""
        missing = {"exact": self.phi(x), "nearest": self.inverse[nearest], "truncate": np.zeros(len(self.psi))}
        before = np.concatenate([self.inverse, missing[self.transfer][None]])
        self.D = np.concatenate([self.D, x[None]])
        self.used.append(self.seen)
        stays = list(range(len(self.D)))
        if self.budget and len(self.D) > self.budget:
            stays = self.stays()
        self.D, self.used = self.D[stays], [self.used[i] for i in stays]
        self.psi, self.inverse = eigenmap(gaussian(self.D, self.D), self.rank)
        T = self.psi @ before[stays]
        self.w = T @ self.w
        self.P = T @ self.P @ T.T + self.delta * (np.eye(len(T)) - T @ T.T)

    def stays(self) -> list[int]:
        gaps2 = ((self.D[:, None] - self.D[None]) ** 2).sum(axis=2)
        stays = list(range(len(self.D)))
        if self.evict == "lru":
            stays.remove(self.used.index(min(self.used[:-1])))
        elif self.evict == "oldest":
            stays.remove(0)
        elif self.evict == "close_pair":
            pairs = [(gaps2[i, j], i) for i in stays for j in stays if i < j]
            stays.remove(min(pairs)[1])
        else:  # widen
            while len(stays) > 0.8 * self.budget:
                self.novelty *= 1.25
                kept: list[int] = []
                for i in stays:
                    if all(gaps2[i, j] >= self.novelty for j in kept):
                        kept.append(i)
                stays = kept
        return stays

    @property
    def values(self) -> Array:
        return self.inverse @ self.w
