"""Approximate linear dependence (ALD): a sample becomes a prototype when those before it do not span it.

Source: Engel, Mannor, Meir (2004), The kernel recursive least-squares algorithm, (3.4)-(3.6); the BlockGreedy paper, Sec. 4.
Symbols: delta = residual, nu = above, K = gram matrix of the prototypes, k = kernel row of x, lambda = ridge.
Cost of a row: O(m d + m^2 / 2).  State: m (d + 1) + 1 numbers with m <= budget; the factor is derived from them.
Departs from the source: a budget; when it is full no prototype is added and the map stays as it is, so that heads and other
keys can share it. The features are U'^-1 k (see `whitened_map.py`), which a new prototype extends and never turns.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import LOST
from algorithms.common.kernels import value
from algorithms.common.linalg import missing, put
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs
from algorithms.prototypes import whitened_map as maps


class AldState(NamedTuple):
    prototypes: Array  # (m, dim) in the order they entered
    arrival: Array  # (m,) int64, number of the row each was, from 1
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Ald(maps.MapLearner):
    """Features: coordinates of phi(x) along the prototypes; zero for prototypes that are not chosen yet.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Ald(above=0.1, budget=3, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[0.0], [0.1], [2.0]])
    >>> out.admitted, out.ls_error.round(3), state.arrival
    (array([1, 0, 1], dtype=int8), array([1.   , 0.01 , 0.982]), array([1, 3]))
    """

    above: Annotated[float, "above 0"] = 0.1  # residual from which x enters, on the scale of kappa(x, x)
    budget: Annotated[int, "1 or more"] = 300  # most prototypes
    ridge: Annotated[float, "above 0"] = 1e-6  # added to the diagonal of the gram matrix

    def init(self, *, dim: int, targets: int, seed: int) -> AldState:
        return AldState(np.empty((0, dim)), np.empty(0, np.int64), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, learn, out, self.kernel.code, float(self.above), float(self.ridge))


@compiled
def _loop(work, slots, X, learn, out, code, above, ridge):
    all_prototypes, all_arrival, seen, counts, factors = work
    budget = factors.shape[1]
    k = np.empty(budget)
    for n in range(len(X)):
        key, x, features = slots[n], X[n], out.features[n]
        kxx = value(code, x, x)
        if missing(x) or not np.isfinite(kxx):
            continue
        prototypes, U, count = all_prototypes[key], factors[key], counts[key, 0]

        # Project on the prototypes so far.
        residual = maps.locate(code, prototypes, count, x, kxx, U, k, features)
        out.ls_error[n] = residual
        if not learn[n] & LEARN_EXTRACTOR:
            continue
        seen[key] += 1

        # What they do not span enters, until the budget is full.
        if residual > max(above, LOST * kxx) and count < budget:
            put(prototypes[count], x)
            all_arrival[key, count] = seen[key]
            maps.extend(U, count, features, kxx, ridge)
            counts[key, :2] = count + 1
            out.admitted[n] = 1
