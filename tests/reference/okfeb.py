"""OK-FEB as the paper writes it (Algorithms 4 and 5), in plain NumPy matrices: nothing cached, nothing clever."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def gaussian(bandwidth: float) -> Any:
    return lambda a, b: np.exp(-((a - b) ** 2).sum() / (2 * bandwidth**2))


def gram(kernel: Any, A: Array, B: Array) -> Array:
    return np.array([[kernel(a, b) for b in B] for a in A]).reshape(len(A), len(B))


@dataclass
class PlainOkfeb:
    """One key. `step` takes a row; `support`, `factor`, `age`, `recent`, `seen` read as in the learner's state."""

    kernel: Any
    rank: int
    budget: int
    ridge: float
    update: str = "nonparametric"
    step_rule: str = "inverse_norm"
    step_size: float = 1.0
    step_floor: float = 0.05
    recede: bool = False
    evict: str = "decayed_norm"
    decay: float = 1.0
    decay_on: str = "admission"
    censor: str = "off"
    censor_below: float = 0.0
    support: list[Array] = field(default_factory=list)
    factor: Array = field(default_factory=lambda: np.empty((0, 0)))
    age: list[int] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    far: list[Array] = field(default_factory=list)
    seen: int = 0
    curvature: float = 0.0

    def plant(self, rows: Array) -> None:
        """Seed with kernel principal components of these rows: A'KA = I."""
        values, vectors = np.linalg.eigh(gram(self.kernel, rows, rows))
        leading = np.argsort(values)[::-1][: self.rank]
        factor = vectors[:, leading] / np.sqrt(values[leading])
        peaks = factor[np.abs(factor).argmax(axis=0), np.arange(self.rank)]
        self.begin(rows, factor * np.sign(peaks))

    def begin(self, rows: Array, factor: Array) -> None:
        self.support, self.factor = [row.copy() for row in rows], factor.copy()
        self.age = list(range(len(rows)))[::-1] if self.decay_on == "admission" else [0] * len(rows)
        self.seen += len(rows)

    def project(self, x: Array) -> tuple[Array, float]:
        A, K = self.factor, gram(self.kernel, self.support, self.support)
        k, kxx = gram(self.kernel, self.support, [x])[:, 0], self.kernel(x, x)
        q = np.linalg.solve(A.T @ K @ A + self.ridge * np.eye(self.rank), A.T @ k)  # (11b)
        return q, kxx - 2 * k @ A @ q + q @ A.T @ K @ A @ q

    def step(self, x: Array) -> dict[str, Any]:
        q, ls_error = self.project(x)
        inner = self.factor.T @ gram(self.kernel, self.support, self.support) @ self.factor
        features = np.linalg.cholesky(inner).T @ q if np.linalg.cond(inner) < 1e8 else np.full(self.rank, np.nan)
        outputs: dict[str, Any] = {"ls_error": ls_error, "features": features, "admitted": 0, "evicted": 0}
        self.seen += 1
        threshold = -1.0
        if self.censor == "moving_average" and self.recent:
            threshold = float(np.mean(self.recent))
        if self.censor == "below":
            threshold = self.censor_below
        self.recent = [*self.recent, ls_error][-100:]
        self.far = [*self.far, x] if ls_error > 0.99 * self.kernel(x, x) else []
        self.far = self.far[-self.budget :]
        if len(self.far) == self.budget and self.lie_together():  # missed altogether so often: begin again
            self.seen -= self.budget
            self.plant(np.array(self.far))
            self.far, self.curvature = [], 0.0
            return outputs | {"admitted": 1, "evicted": 1}
        if len(self.support) == self.budget and ls_error < threshold:
            return outputs
        n, lam, A = self.seen, self.ridge, self.factor
        extended = [*self.support, x]
        K = gram(self.kernel, extended, extended)
        grown = np.vstack([A, np.zeros(self.rank)])
        lipschitz = (q @ q + lam / n) * (1.0 if self.update == "parametric" else np.trace(K))
        self.curvature += lipschitz
        mu = {
            "inverse_norm": self.step_size / max(np.linalg.norm(q), self.step_floor),
            "over_n": self.step_size / n,
            "over_n2": self.step_size / n**2,
            "lipschitz": self.step_size / self.curvature,
            "constant": self.step_size,
        }[self.step_rule]
        if self.update == "parametric":  # (16)
            recede = lam / n * np.eye(self.rank) if self.recede else np.zeros((self.rank, self.rank))
            grown = np.vstack([A - mu * A @ (np.outer(q, q) + recede), mu * q])
        else:  # (19a), (19b)
            G = K @ grown @ np.outer(q, q) - np.outer(K[:, -1], q)
            if self.recede:
                G += lam / n * K @ grown
            grown = grown - mu * G
        self.support, self.factor = extended, grown
        self.age = [age + (self.decay_on == "admission") for age in self.age] + [0]
        outputs["admitted"] = 1
        if len(self.support) > self.budget:  # Algorithm 5
            outputs["evicted"] = 1
            self.leave(K)
        return outputs

    def lie_together(self) -> bool:
        K = gram(self.kernel, self.far, self.far)
        share = K**2 / np.outer(np.diag(K), np.diag(K)) - np.eye(self.budget)
        return bool((share.max(axis=1) > 0.01).all())

    def leave(self, K: Array) -> None:
        if self.decay_on == "eviction":
            self.age = [age + 1 for age in self.age]
        eta = self.decay ** np.array(self.age, float)
        lengths = np.linalg.norm(self.factor, axis=1)
        P = np.linalg.inv(K + 1e-10 * np.diag(np.diag(K)))
        cost = {
            "projected": eta**2 * lengths**2 / np.diag(P),
            "decayed_norm": eta * lengths,  # (26)
            "oldest": -np.arange(len(eta))[::-1],
            "min_distortion": np.array([self.distortion(K, i) for i in range(len(eta))]),
            "redundancy": 1 / np.diag(P),
        }
        cost["projected_older"] = cost["projected"][: len(eta) - 2 * self.budget // 5]
        i = int(np.argmin(cost[self.evict]))
        if self.evict.startswith("projected"):
            row = self.factor[i].copy()
            for j in range(len(self.factor)):
                if j != i:
                    self.factor[j] -= P[j, i] / P[i, i] * row
        self.factor = np.delete(self.factor, i, axis=0)
        del self.support[i], self.age[i]

    def distortion(self, K: Array, i: int) -> float:
        """(24) as printed."""
        rest = [j for j in range(len(K)) if j != i]
        A, B = self.factor, self.factor[rest]
        return float(np.trace(A.T @ K @ A - 2 * B.T @ K[rest] @ A + B.T @ K[np.ix_(rest, rest)] @ B))
