"""OK-FEB before a linear classifier, Adult (Fig. 9a): the head needs a subspace that stands still.

Rank 50, budget 60, gamma 20, moving-average censoring; trained in one pass over the first part of a9a, error on the
second (majority rate .236). The printed Pegasos step with the printed C = 10 stays at the majority rate whatever the
features are; C = 1000 (ridge 1e-3) is used here.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms import learner_from
from algorithms.common.kernels import Kernel
from papers.common import line, options, verdict
from tests.data import dataset

KERNEL = Kernel(bandwidth=10**0.5)
TARGETS = {"nonparametric": 0.163, "parametric": 0.236}  # test error


def adult() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows and labels (-1, +1) to learn from, then those to test on."""
    data = dataset("a9a")
    X, y, first = data["X"].astype(float), np.where(data["y"] > 0, 1.0, -1.0), data["split"] == 0
    return X[first], y[first], X[~first], y[~first]


def chained(update: str, ridge: float, rows: int | None = None) -> tuple[float, float, float]:
    """Progressive error, test error of the last weights, and of batch ridge on the final features."""
    X, y, X_test, y_test = adult()
    X, y, X_test, y_test = X[:rows], y[:rows], X_test[:rows], y_test[:rows]
    extractor: dict[str, Any] = {"name": "okfeb", "rank": 50, "budget": 60, "role": "head", "update": update}
    extractor |= {"censor": "moving_average", "kernel": {"name": "gaussian", "bandwidth": KERNEL.bandwidth}}
    chain = learner_from("chain", {"extractor": extractor, "head": {"name": "pegasos", "ridge": ridge}})
    state, out = chain.run(chain.init(dim=X.shape[1], targets=1, seed=0), X, y[:, None])
    said = out.prediction[:, 0]
    known = np.isfinite(said)
    progressive = np.mean((said[known] >= 0) != (y[known] > 0))
    test = np.mean((chain.predict(state, X_test)[:, 0] >= 0) != (y_test > 0))
    Z, Z_test = chain.transform(state, X), chain.transform(state, X_test)
    w = np.linalg.solve(Z.T @ Z + np.eye(Z.shape[1]), Z.T @ y)
    return float(progressive), float(test), float(np.mean((Z_test @ w >= 0) != (y_test > 0)))


def main(arguments: list[str] | None = None) -> int:
    options("okfeb_adult", __doc__, arguments)
    for update, wanted in TARGETS.items():
        for ridge in (1e-3, 0.1):
            progressive, test, batch = chained(update, ridge)
            if ridge < 0.01:
                line(f"{update}, C {1 / ridge:g}, test", f"{test:.4f}", f"target {wanted}", abs(test - wanted) <= 0.005)
                line("  all rows so far; ridge on the features", f"{progressive:.4f}; {batch:.4f}", "batch ridge about .153")
            else:
                line(f"{update}, C {1 / ridge:g}, test", f"{test:.4f}", "the majority rate is .236")
    verdict("a head on a subspace that stands still learns, on a moving one it does not", "the printed C = 10")
    return 0
