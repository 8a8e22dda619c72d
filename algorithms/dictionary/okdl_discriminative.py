"""Online discriminative kernel dictionary learning: a linear regressor predicts the targets from the codes.

Source: Kim, "Online kernel dictionary learning", (26)-(34), Table II, with the quadratic cost (6).
Symbols: X = samples, Omega = atom_weights, D = Phi(X) Omega, alpha = features, lambda_1 = l1, lambda_2 = l2, mu = ridge,
rho = step length, g = loss, H = D'D, c = D'phi(x), P = (K + eps I)^-1, beta = where D has to move for the targets.
Cost of a row: O(m (d + K) + K (K + targets)) and its code, O(s K) a sweep and O(s^3) for s active atoms; a full budget
adds O(m^2).
State: m (d + K + (m + 1) / 2) + K (K + targets) + 2 numbers with m <= budget, K = atoms.
Readings: those of `okdl.py`, and its budget. Several targets share the atoms, and beta is the sum over them; the paper's
one-versus-all has a learner of one target for each class. Rows without targets teach nothing. A step with rho |alpha|
|beta| > 1, which could double an atom, moves w alone: such errors are outliers, or targets far from the size of 1.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from algorithms.dictionary.family import DictionaryLearner


@dataclass(frozen=True, slots=True, kw_only=True)
class OkdlDiscriminative(DictionaryLearner):
    """Least squares on sparse codes; atoms are learned for the targets, which are of size 1, such as labels -1/+1 or 0/1.

    >>> learner = OkdlDiscriminative(atoms=2, budget=10)
    >>> X, Y = [[0.0, 2.0], [3.0, 0.0]] * 100, [[1.0], [-1.0]] * 100
    >>> state, out = learner.run(learner.init(dim=2, targets=1, seed=0), X, Y)
    >>> learner.predict(state, [[0.1, 1.9], [2.9, 0.1]]).round(2)
    array([[ 0.99],
           [-0.99]])
    """

    kind: ClassVar[str] = "classification"

    atoms: Annotated[int, "1 or more"] = 20  # 1 to budget
    l1: Annotated[float, "0 or more"] = 0.01  # on the scale of kappa(x, x); the larger, the fewer atoms a row has
    l2: Annotated[float, "0 or more"] = 1e-3  # shares a row among atoms that are alike
    nu: float = 0.01  # 0 to 1 / step_size; pulls w to 0
    ridge: float = 0.01  # 0 to 1 / step_size; pulls the atoms to 0
    step_size: Annotated[float, "above 0"] = 0.1  # of the first step of the atoms; later ones are shorter
    step_decay: Annotated[float, "above 0"] = 1000.0  # rows after which steps are half as long
    step_freeze: int = 2000  # rows after which steps stay as long as they are; 0: all are alike, -1: never
    budget: int = 100  # most stored samples; 0: unlimited, which jobs refuse
    evict: Literal["projected_grace", "projected", "norm", "oldest"] = "projected_grace"
