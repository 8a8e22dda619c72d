"""Projection on the last points: the control to compare any subspace tracker with.

Source: ours. It is OK-FEB (Sheikholeslami, Berberidis, Giannakis, Alg. 4) with A = I on the latest `rank` rows: it
learns nothing and only remembers, and on streams where a row resembles the one before its LS error is hard to beat.
Symbols: S = points, lambda = ridge, q = (K_S + lambda I)^-1 k, l = ls_error.
Cost of a row: O(rank d + rank^3).  State: rank d numbers.
Departs from the source: no factor, no admission, no eviction rule; repeats are stored like any other row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import KernelLearner, fill_row, value
from algorithms.common.linalg import missing, put, remove_row, remove_row_and_column
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs
from algorithms.common.workspace import Slot
from algorithms.subspace import projection as sub


class LastPointsState(NamedTuple):
    points: Array  # (m, dim) the latest rows, oldest first
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPoints(KernelLearner):
    """Features: coordinates of phi(x) in the span of the last `rank` points; NaN until there are as many.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = LastPoints(rank=1, ridge=1e-9, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[0.0], [0.0], [9.0]])
    >>> out.ls_error.round(3)
    array([nan,  0.,  1.])
    """

    stored: ClassVar[tuple[str, ...]] = ("points",)
    moves: ClassVar[bool] = True

    rank: Annotated[int, "1 or more"] = 10  # points remembered
    ridge: Annotated[float, "above 0"] = 1e-3  # added to the diagonal of the gram matrix

    def room(self, field: str) -> int | None:
        return self.rank

    def init(self, *, dim: int, targets: int, seed: int) -> LastPointsState:
        return LastPointsState(np.empty((0, dim)), 0)

    def caches(self, state: LastPointsState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        triangles = {name: np.zeros(self.rank * (self.rank + 1) // 2) for name in ("solver", "rotation")}
        return {"gram": np.zeros((self.rank, self.rank)), **triangles}

    def derive(self, own: Slot) -> None:
        gram, held = own["gram"], own.rows_within(self, "points", self.rank, "points", "rank")
        sub.fill_gram(self.kernel.code, own["points"], held, gram)
        if held == self.rank:
            sub.decompose(gram, float(self.ridge), own["solver"], own["rotation"])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, learn, out, basis, self.kernel.code, float(self.ridge))


@compiled
def _loop(work, slots, X, learn, out, basis, code, ridge):
    all_points, seen, counts, grams, solvers, rotations = work
    rank = grams.shape[1]
    k, b, q, turned, factor = np.empty(rank), np.empty(rank), np.empty(rank), np.empty((rank, rank)), np.eye(rank)
    for n in range(len(X)):
        key, x = slots[n], X[n]
        kxx = value(code, x, x)
        if missing(x) or not np.isfinite(kxx):
            continue
        points, gram, solver, rotation, count = all_points[key], grams[key], solvers[key], rotations[key], counts[key, 0]
        fill_row(code, points, count, x, k)

        # Project on the points before x.
        full = count == rank
        if full:
            out.ls_error[n] = sub.project(factor, rank, gram, solver, k, kxx, b, q)
            sub.coordinates(rotation, q, out.features[n])
        if not learn[n] & LEARN_EXTRACTOR:
            continue
        seen[key] += 1

        # The newest point takes the place of the oldest.
        if full:
            if basis.moved.size:
                for i in range(rank):
                    put(turned[i], gram[i + 1] if i + 1 < rank else k)
                sub.leave_basis(rotation, turned)
            remove_row(points, 0, rank)
            remove_row_and_column(gram, 0, rank)
            for i in range(rank - 1):
                k[i] = k[i + 1]
            count -= 1
            out.evicted[n] = 1
        put(points[count], x)
        sub.extend_gram(gram, count, k, kxx)
        counts[key, 0] = count + 1
        out.admitted[n] = 1
        if count + 1 == rank:
            sub.decompose(gram, ridge, solver, rotation)
            if full and basis.moved.size and sub.enter_basis(rotation, turned):
                sub.announce(basis, n, turned)
