"""OnlineGreedy: every row may take the place of the prototype for which it gains most log-determinant.

Source: Schlegel, Pan, Chen, White, "Adapting kernel representations online using submodular maximization", Alg. 1.
Symbols: b = budget, lambda = ridge, eps_t = min_gain, S = prototypes, g(S) = log det (K_S + lambda I), g = estimate,
Q = (K_S + lambda I)^-1, k = kernel row of x, u = Q k, s = kappa(x, x) + lambda - k'u, eta = regress_ridge.
Cost of a row: O(b d + 3 b^2 / 2); of a swap O(b^2) more.
State: 5/4 b (d + 1) numbers; with regress 2 b targets, with nystrom and features b (b + 1) / 2 more.
Readings: replacing prototype i by x gains log(Q_ii s + u_i^2), for all i together in O(b^2); the first of equals. A gain
must be above 0 besides. A relative threshold is a share of g(S), and freezes the set once g > .69 / eps_t (with lambda = 1
and a Gaussian no swap gains more than log 2), so the default is absolute. Features and LS error are of the span of the
prototypes, not of the criterion's ridge (see `family.py`, also for the regressions of Section 6 behind them).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from algorithms.prototypes.family import Greedy


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineGreedy(Greedy):
    """Prototypes of large log-determinant, far from each other; features are coordinates along them.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = OnlineGreedy(budget=2, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[0.0], [0.1], [0.0], [5.0]])
    >>> state.prototypes.ravel(), state.arrival, round(state.estimate, 3)  # 0.1 left: 0 is farther from 5
    (array([0., 5.]), array([1, 4]), 1.386)
    """

    regress: Literal["none", "nystrom", "features", "labels"] = "none"  # ridge regression behind the prototypes
    regress_ridge: Annotated[float, "1e-12 to 1e12"] = 0.01  # eta of the regression, 1e-12 to 1e12
    on_swap: Literal["transfer", "reset"] = "transfer"  # what the regression knows after a swap: all of it, or nothing
