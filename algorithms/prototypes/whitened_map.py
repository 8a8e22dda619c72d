"""The feature map that prototypes define: kernel rows whitened by a triangular factor.

With K the gram matrix of the prototypes and K + ridge I = U'U, U upper, the features of x are z = U'^-1 k: coordinates of
phi(x) along the prototypes, each made orthogonal to those before it. Coordinate i depends on the first i + 1 prototypes
only, so a new prototype appends a coordinate and leaves the others alone, to the last bit.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import extend, factor, whiten
from algorithms.common.kernels import Code, KernelLearner, fill_row
from algorithms.common.linalg import missing, norm2, put
from algorithms.common.protocol import Array, State
from algorithms.common.workspace import Slot

__all__ = ["extend", "factor", "locate", "whiten"]


class MapLearner(KernelLearner, abstract=True):
    """A base, not a learner: prototypes in the order of their places, and the factor that follows from them."""

    __slots__ = ()
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("prototypes", "arrival"),)

    budget: int
    ridge: float

    @property
    def width(self) -> int:
        return self.budget

    def room(self, field: str) -> int | None:
        return self.budget

    def caches(self, state: State, rows: Mapping[str, int]) -> Mapping[str, Array]:
        return {"gram_factor": np.zeros((self.budget, self.budget))}

    def derive(self, own: Slot) -> None:
        held = own.rows_within(self, "prototypes", self.budget, "prototypes")
        factor(self.kernel.code, own["prototypes"], 0, held, float(self.ridge), own["gram_factor"])


@compiled
def locate(code: Code, prototypes: Array, count: int, x: Array, kxx: float, U: Array, k: Array, features: Array) -> float:
    """Kernel row k and features of x, zeros behind the `count` prototypes; gives the ALD residual, NaN out of range."""
    fill_row(code, prototypes, count, x, k)
    put(features, k[:count])
    whiten(U, count, features)
    residual = kxx - norm2(features[:count])
    if not np.isfinite(residual):
        features[:] = np.nan
        return np.nan
    features[count:] = 0.0
    return max(residual, 0.0)


@compiled
def enter(code: Code, prototypes: Array, place: int, x: Array, count: int, ridge: float, U: Array, T: Array) -> bool:
    """x takes the place behind the last prototype, or that of another one; gives whether that changes coordinates.

    T: (1, b, b) for the change, as of `change_of_set`; (0, b, b) where no one asks for it.
    """
    moves = place < count and len(T) > 0
    before, old = (U.copy(), prototypes.copy()) if moves else (U[:0], prototypes[:0])
    put(prototypes[place], x)
    factor(code, prototypes, place, max(count, place + 1), ridge, U)
    return moves and change_of_set(code, old, before, prototypes, count, U, T[0])


@compiled
def change_of_set(code: Code, old: Array, before: Array, new: Array, size: int, U: Array, T: Array) -> bool:
    """T = U'^-1 K(new, old) U_old^-1, z' = T z for what the old set spans; False where that is out of range."""
    T[:] = 0.0
    for i in range(size):
        fill_row(code, old, len(old), new[i], T[i])
        whiten(before, len(old), T[i])
    for i in range(size):
        for c in range(len(old)):
            T[i, c] = T[i, c] / U[i, i] if U[i, i] != 0.0 else 0.0
        for j in range(i + 1, size):
            weight = U[i, j]
            for c in range(len(old)):
                T[j, c] -= weight * T[i, c]
    for i in range(size):
        if missing(T[i]):
            return False
    return True
