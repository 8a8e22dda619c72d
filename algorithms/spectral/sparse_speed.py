"""Sparse SPEED: the fixed map of SPEED, made from a dictionary of novel rows only.

Source: Li, Principe, "Spectral eigenfunction decomposition for kernel adaptive filtering", Section IV, SPEED_sparse.
Symbols: as in `speed`; d_th = novelty, on squared distances, n = stored samples, at most map_size.
Cost of a row: O(n (d + rank)), with rls and exrls O(rank^2) more; the row that completes the map O(n^3).
State: n (d + targets + 1) + rank targets numbers, before the map map_size (d + targets) numbers and map_size bytes.
Departs from the source: as `speed`. The head learns all the first rows, also those that are not stored.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from algorithms.common.kernels import Kernel
from algorithms.common.protocol import require
from algorithms.spectral.family import SpectralFilter, check_head


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseSpeed(SpectralFilter):
    """SPEED with a map made from the novel rows among the first `map_size`.

    >>> learner = SparseSpeed(rank=2, map_size=4, novelty=0.5)
    >>> X = [[0.0], [0.1], [2.0], [2.1], [1.0]]
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, [[1.0]] * 5)
    >>> out.admitted, state.dictionary.ravel()
    (array([1, 0, 1, 0, 0], dtype=int8), array([0., 2.]))
    """

    name: ClassVar[str] = "sparse_speed"
    persisted_name: ClassVar[str] = "SparseSpeed"

    kernel: Kernel = field(default_factory=Kernel)
    rank: int  # features: leading eigenfunctions, at most map_size
    map_size: int  # first rows, from which the map is made
    novelty: float = 0.06  # 0 or more; squared distance to those before from which a row enters the dictionary
    head: Literal["lms", "rls", "exrls", "none"] = "lms"  # "none": features only
    step_size: float = 0.1  # of lms, above 0
    forgetting: float = 1.0  # of rls and exrls, in (0, 1]; weight of a row after n more rows is forgetting^n
    delta: float = 100.0  # of rls and exrls, above 0; start of P, 1 / ridge
    transition: float = 1.0  # of exrls, in (0, 1]; the state's transition is this times the identity
    state_noise: float = 1e-4  # of exrls, 0 or more

    def __post_init__(self) -> None:
        check_head(self)
        require(self, "map_size", 1 <= self.map_size <= 100_000, "1 to 100000")
        require(self, "rank", self.rank <= self.map_size, f"at most map_size ({self.map_size})")

    @property
    def first_rows(self) -> int:
        return self.map_size
