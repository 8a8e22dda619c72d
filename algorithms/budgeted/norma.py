"""NORMA: gradient descent on the regularised risk, whose decay makes old samples safe to drop.

Source: Kivinen, Smola, Williamson (2004), IEEE TSP 52(8):2165-2176, Fig. 1 with truncation. A comparator of paper 000.
Symbols: eta = step_size, lambda = ridge, alpha = weights, tau = max_terms.
Cost of a row: O(m (d + targets)).  State: m (d + targets) + 1 numbers, m = rows with a loss so far or max_terms.
Readings: margin 1, no offset, a constant step. Losses are max(0, 1 - y f), (y - f)^2 / 2 (told as `loss` without the 1/2)
or log(1 + exp(-y f)); squared and logistic ones store every row. f decays by 1 - eta lambda at every row with a target, so
a sample that leaves after tau others has at most (1 - eta lambda)^tau of its weight. squared is stable while step_size
kappa(x, x) < 2. Without max_terms (0) the state grows with the stream: jobs refuse it.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from algorithms.budgeted.family import SupportLearner, state_arrays
from algorithms.budgeted.gradient_loop import LOSSES, OLDEST, Rule, gradient_loop
from algorithms.budgeted.gradient_settings import check_steps, kind_of
from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Array, Basis, Outputs, require


class NormaState(NamedTuple):
    support: Array  # (m, dim) stored samples, oldest first
    weights: Array  # (m, targets)
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Norma(SupportLearner):
    """Classification, or with loss = "squared" regression, by gradient steps on a regularised risk.

    >>> learner = Norma(step_size=0.5, ridge=1.0, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[0.0], [0.0], [0.0]], [[1.0], [1.0], [1.0]])
    >>> out.prediction.ravel(), state.weights.ravel()
    (array([0.  , 0.5 , 0.75]), array([0.125, 0.25 , 0.5  ]))
    """

    name: ClassVar[str] = "norma"
    persisted_name: ClassVar[str] = "Norma"

    kernel: Kernel = field(default_factory=Kernel)
    step_size: float = 0.2  # above 0
    ridge: float = 1e-3  # 0 or more, below 1 / step_size; f decays by step_size ridge a row
    loss: Literal["hinge", "squared", "logistic"] = "hinge"
    max_terms: int = 0  # most stored samples; 0: unlimited, which jobs refuse

    def __post_init__(self) -> None:
        check_steps(self)
        require(self, "max_terms", self.max_terms >= 0, "0 or more")

    @property
    def kind(self) -> str:  # type: ignore[override]
        return kind_of(self.loss)

    def init(self, *, dim: int, targets: int, seed: int) -> NormaState:
        return NormaState(*state_arrays(dim, targets), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        support, weights, seen, counts = work
        step_size, keep = float(self.step_size), 1.0 - self.step_size * self.ridge
        rule = Rule(LOSSES[self.loss], step_size, keep, self.max_terms, OLDEST, False, 0.0)
        gradient_loop(support, weights, seen, seen, counts, slots, X, Y, learn, out, self.kernel.code, rule)
