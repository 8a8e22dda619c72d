"""StreamGreedy: the greedy swaps of a finite stream, which end when a stretch of rows has brought none.

Source: Krause, Gomes (2010), Budgeted nonparametric learning from data streams, as in the BlockGreedy paper, Section 4.
Symbols: b = budget, lambda = ridge, eta = min_gain, S = prototypes, g(S) = log det (K_S + lambda I), g = estimate.
Cost of a row: as `online_greedy`; once it has stopped O(b d + b^2 / 2).  State: as `online_greedy`.
Readings: a step is OnlineGreedy's, exact gains included. What OnlineGreedy leaves out is the end: after `stop_after` rows
without a swap the set is final, and its map stays unchanged. Several passes over a finite set are several runs.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from algorithms.prototypes.family import Greedy


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGreedy(Greedy):
    """Prototypes of large log-determinant; they stop changing after `stop_after` successive rows without an improvement.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = StreamGreedy(budget=2, stop_after=2, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[0.0], [3.0], [0.0], [3.0], [9.0]])
    >>> state.prototypes.ravel(), out.admitted  # 9 came too late
    (array([0., 3.]), array([1, 1, 0, 0, 0], dtype=int8))
    """

    stop_after: Annotated[int, "0 or more"] = 1000  # rows without a swap after which the set is final; 0 = never
    regress: Literal["none", "nystrom", "features", "labels"] = "none"  # ridge regression behind the prototypes
    regress_ridge: Annotated[float, "1e-12 to 1e12"] = 0.01  # eta of the regression, 1e-12 to 1e12
    on_swap: Literal["transfer", "reset"] = "transfer"  # what the regression knows after a swap: all of it, or nothing
