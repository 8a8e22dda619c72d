"""OK-FE as the paper writes it (Algorithms 2 and 3), and BKFE (Algorithm 1), in plain NumPy matrices."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.reference.okfeb import gram

Array = NDArray[Any]


@dataclass
class PlainOkfe:
    """One key that starts with these rows and this factor; `step` takes a row."""

    kernel: Any
    ridge: float
    rows: list[Array]
    factor: Array
    update: str = "parametric"
    step_rule: str = "inverse_norm"
    step_size: float = 1.0
    step_floor: float = 0.05
    recede: bool = False
    curvature: float = 0.0
    gram: Array | None = None
    ls_errors: list[float] = field(default_factory=list)

    def step(self, x: Array) -> Array:
        """Learn x; gives q. The LS error before goes to `ls_errors`."""
        A, K = self.factor, gram(self.kernel, self.rows, self.rows) if self.gram is None else self.gram
        k, kxx, r = gram(self.kernel, self.rows, [x])[:, 0], self.kernel(x, x), self.factor.shape[1]
        q = np.linalg.solve(A.T @ K @ A + self.ridge * np.eye(r), A.T @ k)  # (11b)
        self.ls_errors.append(float(kxx - 2 * k @ A @ q + q @ A.T @ K @ A @ q))
        self.rows = [*self.rows, x]
        n, K = len(self.rows), np.block([[K, k[:, None]], [k[None], np.array([[kxx]])]])
        self.gram = K
        turn = np.outer(q, q) + (self.ridge / n * np.eye(r) if self.recede else 0.0)
        gamma = (q @ q + self.ridge / n) * (1.0 if self.update == "parametric" else np.trace(K))
        self.curvature += gamma
        mu = {
            "inverse_norm": self.step_size / max(np.linalg.norm(q), self.step_floor),
            "over_n": self.step_size / n,
            "over_n2": self.step_size / n**2,
            "lipschitz": self.step_size / self.curvature,
            "constant": self.step_size,
        }[self.step_rule]
        H = np.vstack([A @ turn, -q])  # (14), (16)
        G = H if self.update == "parametric" else K @ H  # (19b) = K times that, (20)
        self.factor = np.vstack([A, np.zeros(r)]) - mu * G
        return q


def bkfe(K: Array, A: Array, ridge: float, iterations: int) -> tuple[Array, Array]:
    """Algorithm 1 from the factor A: the last A, and the Q it was made of."""
    Q = np.empty((A.shape[1], len(K)))
    for _ in range(iterations):
        Q = np.linalg.inv(A.T @ K @ A + ridge * np.eye(A.shape[1])) @ A.T @ K  # (7)
        A = Q.T @ np.linalg.inv(Q @ Q.T + ridge * np.eye(A.shape[1]))  # (9)
    return A, Q
