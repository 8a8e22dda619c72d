"""WR-KPCA in plain NumPy: the carried matrix M, who leaves and how, and the directions by the full eigenproblem."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.reference.okfeb import gram

Array = NDArray[Any]


@dataclass
class PlainWrkpca:
    """One key. `step` takes a row and gives its LS error and the inner products of its features with themselves."""

    kernel: Any
    rank: int
    budget: int
    ridge: float
    decay: float
    floor: float
    fade: float
    support: list[Array] = field(default_factory=list)
    age: list[int] = field(default_factory=list)
    M: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def covariance(self) -> Array:
        """C in the coordinates of the support."""
        return self.M + (1 - self.floor) / self.floor * np.diag(self.fade ** np.array(self.age, float))

    def directions(self) -> Array:
        """A with A'KA = I: the leading eigenvectors of Phi C Phi'."""
        K = gram(self.kernel, self.support, self.support)
        values, vectors = np.linalg.eigh(K)
        root = vectors * np.sqrt(values) @ vectors.T  # any K^(1/2) gives the same subspace
        top = np.linalg.eigh(root @ self.covariance() @ root)[1][:, ::-1][:, : self.rank]
        return np.linalg.solve(root, top)

    def step(self, x: Array) -> tuple[float, float]:
        ls_error, length2 = np.nan, np.nan
        if len(self.support) >= self.rank:
            b = self.directions().T @ gram(self.kernel, self.support, [x])[:, 0]
            q = b / (1 + self.ridge)
            ls_error, length2 = float(self.kernel(x, x) - 2 * b @ q + q @ q), float(q @ q)
        m = len(self.support)
        M = np.eye(m + 1)
        M[:m, :m] = self.decay * self.M
        self.support, self.age, self.M = [*self.support, x], [*(a + 1 for a in self.age), 0], M
        if m == self.budget:
            self.leave()
        return ls_error, length2

    def leave(self) -> None:
        K = gram(self.kernel, self.support, self.support)
        P = np.linalg.inv(K)
        i = int(np.argmin(np.diag(self.covariance()) / np.diag(P)))
        rest = [j for j in range(len(K)) if j != i]
        T = np.zeros((len(rest), len(K)))
        T[np.arange(len(rest)), rest] = 1.0
        T[:, i] = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])  # the projection of phi_i on the others
        self.M = T @ self.M @ T.T
        del self.support[i], self.age[i]
