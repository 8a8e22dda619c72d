"""Kernel least mean squares (KLMS): every sample is stored, weighted by its error.

Source: Liu, Pokharel, Principe (2008), IEEE TSP 56(2):543-554, Algorithm 1; a comparator of the SPEED paper, Fig. 4.
Symbols: eta = step_size, e_i = error of row i, a_i = eta e_i = weights.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 1 numbers, m = rows so far or budget.
Departs from the source: a budget. When it is full the lightest term leaves, argmin |a_i|^2 kappa(x_i, x_i), the newcomer
included, and the stored sample most like it takes over its projection, a_j += a_i kappa_ij / kappa_jj: without that small
corrections, light as they are, would all be lost. An exact repeat of a stored sample then adds to that sample's weight,
which is the same function. Without a budget (0) nothing leaves and the state grows with the stream: jobs refuse it.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from algorithms.adaptive.expansion import KernelFilter, klms_loop
from algorithms.common.protocol import Array, Basis, Outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Klms(KernelFilter):
    """Regression by stochastic gradient steps in the kernel's space; stable while step_size kappa(x, x) < 2.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Klms(step_size=0.5, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [0.0], [99.0]], [[2.0], [2.0], [2.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([0., 1., 0.]), array([1. , 0.5, 1. ]))
    """

    step_size: Annotated[float, "above 0"] = 0.2  # share of the error that a step closes at x itself, where kappa(x, x) = 1
    budget: Annotated[int, "0 or more"] = 0  # most stored samples; 0: unlimited, which jobs refuse

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        quantum = 0.0 if self.budget else -1.0
        klms_loop(tuple(work), slots, X, Y, learn, out, self.kernel.code, float(self.step_size), quantum, self.budget)
