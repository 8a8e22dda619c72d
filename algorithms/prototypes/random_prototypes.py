"""Random prototypes: a uniform sample of all rows so far, kept by a reservoir; the control of every selection rule.

Source: Vitter (1985), Random sampling with a reservoir, Algorithm R; a baseline of the BlockGreedy paper, Section 5.
Symbols: t = seen, b = budget, K = gram matrix of the prototypes, k = kernel row of x, T = transfer.
Cost of a row: O(m d + m^2 / 2), of one that enters O(m^2 d + m^3 / 3), which b ln(n / b) of n rows do after the first b.
State: m (d + 1) + 2 numbers with m <= budget; the factor is derived from them.
Readings: row t takes place j, drawn from 0 .. t - 1, if j < b; the draw is a function of (seed, t), so a replay repeats it.
The features are U'^-1 k (see `whitened_map.py`): a newcomer turns the coordinates from its place on, and heads get the
change of basis, T = U'_new^-1 K(new, old) U_old^-1. Meant to be frozen on a population, as the sample then is the map.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import value
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Learner, Outputs
from algorithms.common.randomness import uniform
from algorithms.prototypes import whitened_map as maps

PLACE = 1  # purpose of the draws
BOUNDED = ("gaussian", "laplacian")  # kernels that are finite for all finite rows


class RandomPrototypesState(NamedTuple):
    prototypes: Array  # (m, dim) by place
    arrival: Array  # (m,) int64, number of the row in each place, from 1
    seen: int  # rows so far, t
    seed: int  # of the draws


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomPrototypes(maps.MapLearner):
    """Features: coordinates of phi(x) along the prototypes; zero for prototypes that are not chosen yet.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = RandomPrototypes(budget=3, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[0.0], [5.0], [0.0], [9.0]])
    >>> out.ls_error.round(3), state.seen, len(state.prototypes)
    (array([1., 1., 0., 1.]), 4, 3)
    """

    moves: ClassVar[bool] = True

    budget: Annotated[int, "1 or more"] = 300  # most prototypes
    ridge: Annotated[float, "above 0"] = 1e-6  # added to the diagonal of the gram matrix

    def init(self, *, dim: int, targets: int, seed: int) -> RandomPrototypesState:
        return RandomPrototypesState(np.empty((0, dim)), np.empty(0, np.int64), 0, seed)

    def state_after(self, X: Array, *, seed: int) -> RandomPrototypesState:
        """Samples without the features of rows, where every row has some: O(n) in place of a factor of each that enters."""
        if self.kernel.name not in BOUNDED or not np.isfinite(X).all():
            after: RandomPrototypesState = Learner.state_after(self, X, seed=seed)
            return after
        arrival = _sample(len(X), self.budget, seed)
        return RandomPrototypesState(np.array(X[arrival - 1], dtype=np.float64, order="C"), arrival, len(X), seed)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, learn, out, basis, self.kernel.code, float(self.ridge))


@compiled
def _loop(work, slots, X, learn, out, basis, code, ridge):
    all_prototypes, all_arrival, seen, seeds, counts, factors = work
    budget = factors.shape[1]
    k = np.empty(budget)
    for n in range(len(X)):
        key, x = slots[n], X[n]
        kxx = value(code, x, x)
        if missing(x) or not np.isfinite(kxx):
            continue
        prototypes, arrival, U, count = all_prototypes[key], all_arrival[key], factors[key], counts[key, 0]

        # Project on the prototypes so far.
        residual = maps.locate(code, prototypes, count, x, kxx, U, k, out.features[n])
        out.ls_error[n] = residual
        if not learn[n] & LEARN_EXTRACTOR or not np.isfinite(residual):
            continue
        seen[key] += 1

        # Each row so far has the same chance to be a prototype.
        place = count if count < budget else _place(seeds[key], seen[key])
        if place >= budget:
            continue
        arrival[place] = seen[key]
        out.admitted[n], out.evicted[n] = 1, count == budget
        if maps.enter(code, prototypes, place, x, count, ridge, U, basis.transfer[n : n + 1]):
            basis.moved[n] = 1
        counts[key, :2] = max(count, place + 1)


@compiled
def _place(seed, seen):
    """The place of row `seen`, from 1, in a full sample; at least its size: none."""
    return int(uniform(seed, PLACE, seen) * seen)


@compiled
def _sample(rows, budget, seed):
    """Numbers of the rows, from 1, that are the sample of the first `rows`."""
    arrival = np.empty(min(rows, budget), np.int64)
    for seen in range(1, rows + 1):
        place = seen - 1 if seen <= budget else _place(seed, seen)
        if place < budget:
            arrival[place] = seen
    return arrival
