"""Quantized kernel least mean squares (QKLMS): a sample near a stored one only moves that one's weight.

Source: Chen, Zhao, Zhu, Principe (2012), IEEE TNNLS 23(1):22-32, QKLMS; a comparator of the SPEED paper, Fig. 4.
Symbols: eta = step_size, epsilon_U^2 = quantum (on the squared distance), C = dictionary, alpha = weights.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 1 numbers, m <= budget.
Departs from the source: a budget. When it is full the lightest term leaves, argmin |alpha_i|^2 kappa(x_i, x_i), the
newcomer included, and the stored sample most like it takes over its projection, alpha_j += alpha_i kappa_ij / kappa_jj.
Without a budget (0) nothing leaves: inputs that keep moving on grow the state, so jobs refuse it.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from algorithms.adaptive.expansion import KernelFilter, klms_loop
from algorithms.common.protocol import Array, Basis, Outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Qklms(KernelFilter):
    """Kernel LMS regression on a dictionary that grows only where the input is new.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = Qklms(step_size=0.5, quantum=0.01, budget=50, kernel=Kernel(bandwidth=1.0))
    >>> state = learner.init(dim=1, targets=1, seed=0)
    >>> state, out = learner.run(state, [[0.0], [5.0], [0.0]], [[2.0], [2.0], [2.0]])
    >>> out.prediction.ravel().round(3), state.weights.ravel().round(3)
    (array([0., 0., 1.]), array([1.5, 1. ]))
    """

    step_size: Annotated[float, "above 0"] = 0.2  # share of the error that a step closes at x itself, where kappa(x, x) = 1
    quantum: Annotated[float, "0 or more"] = 0.1  # squared distance within which x counts as stored
    budget: Annotated[int, "0 or more"] = 0  # most stored samples; 0: unlimited, which jobs refuse

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        step_size, quantum = float(self.step_size), float(self.quantum)
        klms_loop(tuple(work), slots, X, Y, learn, out, self.kernel.code, step_size, quantum, self.budget)
