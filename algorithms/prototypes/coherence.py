"""Coherence: a sample becomes a prototype when it is not too similar to any of those before it.

Source: Richard, Bermudez, Honeine (2009), Online prediction of time series data with kernels, (17); the BlockGreedy paper.
Symbols: mu_0 = above, b = budget, k = kernel row of x, eta = regress_ridge.
Cost of a row: O(m d + m^2 / 2).  State: m (d + 1) numbers with m <= b; with regress as `online_greedy`.
Readings: x enters unless |kappa(x, z)| / sqrt(kappa(x, x) kappa(z, z)) is above mu_0 for some prototype z; a row without
length (kappa(x, x) = 0) enters an empty set only. Departs from the source: a budget; when it is full no prototype is added.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from algorithms.common.protocol import Array, Basis, Outputs
from algorithms.prototypes.family import COHERENCE, PrototypeRule, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Coherence(PrototypeRule):
    """Features: coordinates of phi(x) along prototypes with a limited similarity to each other.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Coherence(above=0.5, budget=3, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[0.0], [1.0], [2.0], [3.0]])
    >>> out.admitted, state.arrival  # the kernel of 1 apart is .61, of 2 apart .14
    (array([1, 0, 1, 0], dtype=int8), array([1, 3]))
    """

    judges: ClassVar[bool] = False

    budget: Annotated[int, "1 to 10000"] = 100  # most prototypes, 1 to 10000
    above: Annotated[float, "0 to 1"] = 0.5  # in [0, 1]; coherence above which x is left out
    regress: Literal["none", "nystrom", "features", "labels"] = "none"  # ridge regression behind the prototypes
    regress_ridge: Annotated[float, "1e-12 to 1e12"] = 0.01  # eta of the regression, 1e-12 to 1e12

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        limits = 1.0, float(self.above), False, 0
        ends = self.form, float(self.regress_ridge), False
        rows(tuple(work), slots, X, Y, learn, out, basis, self.kernel.code, COHERENCE, *limits, *ends)
