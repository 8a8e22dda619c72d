"""Incremental SPEED (iSPEED): the map follows the stream, and the filter is carried over.

Source: Li, Principe, "Spectral eigenfunction decomposition for kernel adaptive filtering", Alg. 4.
Symbols: Psi = the eigenmap Lambda^(-1/2) V', m = rank, D = dictionary, d_th = novelty, on squared distances,
eta = step_size, w = weights, T = Psi' [V sqrt(Lambda); phi(x)'], the change of basis.
Cost of a row: O(n (d + rank)) with n stored samples, with rls and exrls O(rank^2) more; an admission adds O(n^3) with eigh
and rank_one, O(n^2 + n ritz_rank rank + ritz_rank^3) with ritz, and O(n rank^2).
State: n (d + targets + 1) + rank targets numbers with n <= budget; rank_one n (n + 1) more, ritz (n + 1) ritz_rank; with rls
and exrls rank (rank + 1) / 2; before the first map seed_size (d + targets) numbers and seed_size bytes.
Departs from the source: the paper's two transfers (nearest, truncate) do not lead to the batch filter; the exact one gives
a newcomer the filter's own prediction, whatever enters or leaves, so w' = T w, and P' = T P T' + delta (I - T T'). Rank-one
updates are deflated, with Gu and Eisenstat's vectors; as printed they divide by poles. A budget: lru drops the sample that
was least recently the nearest of a row, widen makes the threshold 1.25 times as large until .8 of the budget are left.
After an eviction the eigenpairs are recomputed. While the first rows wait, a full dictionary accepts none of them. Exact
repeats are never stored. As the extractor of a chain the map follows after the head has learned. Otherwise as `speed`.
"""

from dataclasses import dataclass

from algorithms.spectral.family import MovingMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Ispeed(MovingMap):
    """SPEED with a map that follows every new row; the head's weights are converted when the map changes.

    >>> learner = Ispeed(rank=2, seed_size=3, budget=4)
    >>> X = [[0.0], [1.0], [2.0], [1.5], [2.5], [0.5]]
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, [[1.0]] * 6)
    >>> out.admitted, out.evicted, state.dictionary.ravel()
    (array([1, 1, 1, 1, 1, 1], dtype=int8), array([0, 0, 0, 0, 1, 1], dtype=int8), array([1. , 2. , 2.5, 0.5]))
    """

    novelty: float = 0.0
