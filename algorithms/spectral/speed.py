"""Spectral eigenfunction decomposition (SPEED): a linear filter on a fixed map made from the first rows.

Source: Li, Principe, "Spectral eigenfunction decomposition for kernel adaptive filtering", (19) and Alg. 1-3.
Symbols: Psi = the eigenmap Lambda^(-1/2) V', m = rank, n = map_size, eta = step_size, lambda = forgetting, A = transition.
Cost of a row: O(n (d + rank)), with rls and exrls O(rank^2) more; the row that completes the map O(n^3).
State: n (d + targets + 1) + rank targets numbers, before the map n (d + targets) and n bytes.
Departs from the source: Alg. 3 as printed applies A twice to the gain; here it is the Kalman form. An eigenvalue below
1e-12 of the first gives a feature of 0. Gram matrices are not centred. The first rows wait and give no prediction; when the
last has come, the head learns them in order. P is kept finite as in `rls`.
"""

from dataclasses import dataclass

from algorithms.spectral.family import FixedMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed(FixedMap):
    """Linear filtering on the leading eigenfunctions of a kernel, with a map that is fixed after the first `map_size` rows.

    >>> learner = Speed(rank=2, map_size=4, step_size=0.5)
    >>> X = [[0.0], [1.0], [2.0], [3.0], [1.0], [1.0]]
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, [[2.0]] * 6)
    >>> out.prediction.round(2).ravel(), state.dictionary.shape, state.values.shape
    (array([ nan,  nan,  nan,  nan, 1.87, 1.93]), (4, 1), (4, 1))
    """

    novelty: float = 0.0  # 0 or more; squared distance to those before from which a row counts for the map; repeats never do
