"""FullGreedy: prototypes of large log-determinant from all rows at hand, one after the other; for batches, no learner.

Source: the greedy algorithm of Nemhauser, Wolsey, Fisher (1978) on BlockGreedy's criterion, g(S) = log det (K_S + lambda I).
The next prototype is the row with the largest residual kappa(x, x) + lambda - k'(K_S + lambda I)^-1 k, the first of equals:
a pivoted Cholesky factorisation, O(n b (d + b)) for b prototypes of n rows.
"""

from typing import Any

import numpy as np

from algorithms.common.kernels import Kernel, gram, own_value
from algorithms.common.protocol import Array, Learner, State


def full_greedy(X: Array, *, kernel: Kernel, budget: int, ridge: float = 1.0) -> tuple[Array, float]:
    """Numbers (m,) of the chosen rows of X (n, dim) in the order chosen, from 0, and g of them; m = budget, at most n.

    Rows that are not finite, or have a kernel that is not, are never chosen. Raises ValueError for a budget below 1 or a
    ridge that is not above 0.

    >>> chosen, log_det = full_greedy(np.array([[0.0], [0.1], [5.0]]), kernel=Kernel(bandwidth=1.0), budget=2)
    >>> chosen, round(log_det, 3)
    (array([0, 2]), 1.386)
    """
    if not (budget >= 1 and ridge > 0):
        raise ValueError(f"full_greedy: expected a budget of 1 or more and a ridge above 0, got {budget} and {ridge}.")
    X = np.ascontiguousarray(X, float)
    left = np.array([own_value(kernel.code, x) if np.isfinite(x).all() else -np.inf for x in X]) + ridge
    left[~np.isfinite(left)] = -np.inf
    usable = int(np.isfinite(left).sum())
    columns, chosen, total = np.zeros((min(budget, usable), len(X))), [], 0.0
    for step in range(len(columns)):
        best = int(left.argmax())
        pivot = np.sqrt(left[best])
        column = gram(kernel, X, X[best : best + 1])[:, 0] - columns[:step, best] @ columns[:step]
        column[best] = left[best]
        columns[step] = np.where(np.isfinite(column), column, 0.0) / pivot
        chosen.append(best)
        total += 2 * float(np.log(pivot))
        left = np.maximum(left - columns[step] ** 2, np.where(np.isfinite(left), ridge, -np.inf))
        left[chosen] = -np.inf
    return np.array(chosen, np.int64), total


def with_prototypes(learner: Learner, X: Array, chosen: Array) -> State:
    """A state of a prototype learner (`online_greedy`, `ald`, ..) that begins with these rows of X, as for a map."""
    X = np.ascontiguousarray(X, float)
    fresh: Any = learner.init(dim=X.shape[1], targets=0, seed=0)
    rows = np.sort(chosen)
    state = fresh._replace(prototypes=X[rows].copy(), arrival=rows.astype(np.int64) + 1, seen=len(X))
    work = learner.workspace(state)
    learner.load(work, 0, state)
    return learner.save(work, 0, state)
