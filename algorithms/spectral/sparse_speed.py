"""Sparse SPEED: the fixed map of SPEED, made from a dictionary of novel rows only.

Source: Li, Principe, "Spectral eigenfunction decomposition for kernel adaptive filtering", Section IV, SPEED_sparse.
Symbols: as in `speed`; d_th = novelty, on squared distances, n = stored samples, at most map_size.
Cost of a row: O(n (d + rank)), with rls and exrls O(rank^2) more; the row that completes the map O(n^3).
State: n (d + targets + 1) + rank targets numbers, before the map map_size (d + targets) numbers and map_size bytes.
Departs from the source: as `speed`. The head learns all the first rows, also those that are not stored.
"""

from dataclasses import dataclass

from algorithms.spectral.family import FixedMap


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseSpeed(FixedMap):
    """SPEED with a map made from the novel rows among the first `map_size`.

    >>> learner = SparseSpeed(rank=2, map_size=4, novelty=0.5)
    >>> X = [[0.0], [0.1], [2.0], [2.1], [1.0]]
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, [[1.0]] * 5)
    >>> out.admitted, state.dictionary.ravel()
    (array([1, 0, 1, 0, 0], dtype=int8), array([0., 2.]))
    """

    novelty: float = 0.06  # 0 or more; squared distance to those before from which a row enters the dictionary
