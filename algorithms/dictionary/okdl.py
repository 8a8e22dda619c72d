"""Online kernel dictionary learning (OKDL): atoms of which each row is a combination of few.

Source: Kim, "Online kernel dictionary learning", (13)-(18), Table I.
Symbols: X = samples, Omega = atom_weights, D = Phi(X) Omega, alpha = features, lambda = l1, mu = ridge, rho = step length,
f = loss, H = D'D, c = D'phi(x), P = (K + eps I)^-1.
Cost of a row: O(m (d + K) + K^2) and its code, O(s K) a sweep and O(s^3) for s active atoms; a full budget adds O(m^2).
State: m (d + K + (m + 1) / 2) + K^2 + 2 numbers with m <= budget, K = atoms.
Readings: Omega_0 = 0 is a fixed point, so the first K rows that are not repeats become atoms of length 1. A repeated row
adds to its own row of Omega. rho_n = step_size / (1 + min(n, step_freeze) / step_decay), at most 1.5 / |alpha|^2.
Departs from the source: a budget. `projected_grace` drops the sample without which D changes least, argmin |Omega_i|^2 /
P_ii, none of the newest fifth, and the others take over what they span of it; `projected` spares none; `norm` and `oldest`
drop argmin |Omega_i|^2 and the first with their part of D. A row that no atom answers to, close to a stored one to which
none did, makes the shortest atom start over: else atoms that the stream has left would stay silent for ever.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from algorithms.dictionary.family import DictionaryLearner


@dataclass(frozen=True, slots=True, kw_only=True)
class Okdl(DictionaryLearner):
    """Features: the sparse code of phi(x) in a dictionary of `atoms` atoms that follows the stream; NaN before it starts.

    >>> learner = Okdl(atoms=2, budget=10)
    >>> X = [[0.0, 2.0], [3.0, 0.0], [0.1, 2.0], [2.9, 0.1]]
    >>> state, out = learner.run(learner.init(dim=2, targets=0, seed=0), X)
    >>> out.features[2:].round(2), out.ls_error[2:].round(3), state.atom_weights.shape
    (array([[0.99, 0.  ],
           [0.  , 0.99]]), array([0.005, 0.01 ]), (4, 2))
    """

    atoms: Annotated[int, "1 or more"] = 20  # 1 to budget
    l1: Annotated[float, "0 or more"] = 0.01  # on the scale of kappa(x, x); the larger, the fewer atoms a row has
    l2: Annotated[float, "0 or more"] = 0.0  # shares a row among atoms that are alike
    ridge: float = 0.01  # 0 to 1 / step_size; pulls the atoms to 0
    step_size: Annotated[float, "above 0"] = 0.1  # of the first step of the atoms; later ones are shorter
    step_decay: Annotated[float, "above 0"] = 1000.0  # rows after which steps are half as long
    step_freeze: int = 2000  # rows after which steps stay as long as they are; 0: all are alike, -1: never
    budget: int = 100  # most stored samples; 0: unlimited, which jobs refuse
    evict: Literal["projected_grace", "projected", "norm", "oldest"] = "projected_grace"
