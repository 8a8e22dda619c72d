"""Sparse incremental SPEED (siSPEED): the map follows what is novel, and the filter is carried over.

Source: Li, Principe, "Spectral eigenfunction decomposition for kernel adaptive filtering", Alg. 5 with Alg. 4.
Symbols: as in `ispeed`.
Cost of a row: O(n (d + rank)) with n stored samples, with rls and exrls O(rank^2) more; an admission adds O(n^3) with eigh
and rank_one, O(n^2 + n ritz_rank rank + ritz_rank^3) with ritz, and O(n rank^2).
State: n (d + targets + 1) + rank targets numbers with n <= budget; rank_one n (n + 1) more, ritz (n + 1) ritz_rank; with rls
and exrls rank (rank + 1) / 2; before the first map seed_size (d + targets) numbers and seed_size bytes.
Departs from the source: as `ispeed`.
"""

from dataclasses import dataclass

from algorithms.spectral.family import MovingMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Sispeed(MovingMap):
    """SPEED with a map that follows novel rows only; the dictionary is kept on a budget.

    >>> learner = Sispeed(rank=2, seed_size=3, novelty=0.5)
    >>> X = [[0.0], [0.1], [2.0], [2.1], [1.0]]
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, [[1.0]] * 5)
    >>> out.admitted, state.dictionary.ravel()
    (array([1, 0, 1, 0, 1], dtype=int8), array([0., 2., 1.]))
    """

    novelty: float = 0.06
