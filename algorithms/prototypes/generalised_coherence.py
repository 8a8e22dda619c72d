"""Generalised coherence: a sample takes a prototype's place where the set then spans more of a sample of the stream.

Source: Schlegel, Pan, Chen, White, "Adapting kernel representations online using submodular maximization", eq. (3), (4),
with omega = 1; swaps as in its Alg. 1. The paper leaves an algorithm for it to future work: this is ours.
Symbols: S = prototypes, b = budget, lambda = ridge, Q = (K_S + lambda I)^-1, w_r = kernel row of a reference row r with S,
g(S) = mean over r of w_r' Q w_r, which estimates tr(Q Sigma) + mu' Q mu; u = Q k, s = kappa(x, x) + lambda - k'u.
Cost of a row: O(R (d + b) + b^2) with R = reference; of one that swaps O(R b^2 + b^3).
State: (b + R) (d + 1) + 2 numbers at most. Q, the kernel rows and the map are derived from them.
Readings: expectations are over a uniform sample of all rows so far (Vitter's Algorithm R, draws are functions of (seed, t)).
x in place of prototype i gains D / s - sum_r (t_ri - u_i d_r / s)^2 / (Q_ii + u_i^2 / s), over R, with t_r = Q w_r,
d_r = kappa(r, x) - w_r'u, D = sum_r d_r^2. The first b rows enter, then x enters where that gains `min_gain` or more.
Features are z = U'^-1 k of `whitened_map.py` in the order of the slots; heads get the change of basis after a swap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import fill_row, own_value
from algorithms.common.linalg import dot, missing, put
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs
from algorithms.common.randomness import uniform
from algorithms.common.workspace import Slot
from algorithms.prototypes import inverse
from algorithms.prototypes import whitened_map as maps
from algorithms.prototypes.family import FAR
from algorithms.prototypes.turning_map import RIDGE

PLACE = 1  # purpose of the draws


class GeneralisedCoherenceState(NamedTuple):
    prototypes: Array  # (m, dim) by slot
    arrival: Array  # (m,) int64, number of the row in each slot, from 1
    reference: Array  # (r, dim) a uniform sample of all rows so far, by place
    seen: int  # rows so far, t
    seed: int  # of the draws


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneralisedCoherence(maps.MapLearner):
    """Prototypes that span the rows seen so far, with a small LS error; features are coordinates along them.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = GeneralisedCoherence(budget=2, reference=20, kernel=Kernel(bandwidth=1.0))
    >>> X = [[0.0], [0.1], [3.0], [0.0], [3.1], [0.1], [9.0]]
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), X)
    >>> state.prototypes.ravel(), out.evicted  # 9 came once, and stands for little
    (array([0. , 3.1]), array([0, 0, 0, 0, 1, 0, 0], dtype=int8))
    """

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("prototypes", "arrival"), ("reference",))
    moves: ClassVar[bool] = True

    budget: Annotated[int, "1 to 1000"] = 100  # prototypes, 1 to 1000
    reference: Annotated[int, "1 to 10000"] | None = (
        None  # rows that the criterion is a mean over, 1 to 10000; None = 4 budget
    )
    ridge: Annotated[float, "1e-12 to 1e12"] = 0.01  # lambda of the criterion, 1e-12 to 1e12; the map has 1e-6
    min_gain: Annotated[float, "0 or more"] = 1e-4  # a swap must gain as much, on the scale of kappa(x, x)

    @property
    def references(self) -> int:
        return 4 * self.budget if self.reference is None else self.reference

    def room(self, field: str) -> int | None:
        return self.references if field == "reference" else self.budget

    def init(self, *, dim: int, targets: int, seed: int) -> GeneralisedCoherenceState:
        return GeneralisedCoherenceState(np.empty((0, dim)), np.empty(0, np.int64), np.empty((0, dim)), 0, seed)

    def caches(self, state: GeneralisedCoherenceState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        b, R = self.budget, self.references
        return {"gram_factor": np.zeros((b, b)), "Q": np.zeros((b, b)), "W": np.zeros((R, b)), "T": np.zeros((R, b))}

    def derive(self, own: Slot) -> None:
        held = own.rows_within(self, "prototypes", self.budget, "prototypes")
        rows = own.rows_within(self, "reference", self.references, "rows of reference", "reference")
        prototypes, code = own["prototypes"], self.kernel.code
        maps.factor(code, prototypes, 0, held, RIDGE, own["gram_factor"])
        if held == self.budget:
            span(code, prototypes, own["reference"], rows, float(self.ridge), own["Q"], own["W"], own["T"])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        limits = float(self.ridge), float(self.min_gain)
        _loop(tuple(work), slots, X, learn, out, basis, self.kernel.code, *limits)


@compiled
def _loop(work, slots, X, learn, out, basis, code, ridge, min_gain):
    all_prototypes, all_arrival, all_reference, seen, seeds, counts, factors, all_Q, all_W, all_T = work
    budget, most = factors.shape[1], all_reference.shape[1]
    k, u, d = np.empty(budget), np.empty(budget), np.empty(most)
    for n in range(len(X)):
        key, x = slots[n], X[n]
        if missing(x):
            continue
        kxx = own_value(code, x)
        if not kxx < FAR:
            continue
        prototypes, arrival, reference, U = all_prototypes[key], all_arrival[key], all_reference[key], factors[key]
        Q, W, T, count = all_Q[key], all_W[key], all_T[key], counts[key, 0]

        # Project on the prototypes so far.
        residual = maps.locate(code, prototypes, count, x, kxx, U, k, out.features[n])
        out.ls_error[n] = residual
        if not learn[n] & LEARN_EXTRACTOR or not np.isfinite(residual):
            continue
        seen[key] += 1

        # x in the place of a prototype, where the set then spans more of the reference rows.
        slot, rows = count, counts[key, 2]
        if count == budget:
            inverse.product(Q, count, k, u)
            own = inverse.ridge_of(kxx, ridge, count)
            schur = max(kxx + own - dot(k, u), own)
            fill_row(code, reference, rows, x, d)
            slot, gained = best_swap(Q, W, T, rows, u, schur, d)
            if not (gained >= min_gain and gained > 0.0):
                slot = -1
        if slot >= 0:
            arrival[slot] = seen[key]
            out.admitted[n], out.evicted[n] = 1, count == budget
            if maps.enter(code, prototypes, slot, x, count, RIDGE, U, basis.transfer[n : n + 1]):
                basis.moved[n] = 1
            count = max(count, slot + 1)
            counts[key, :2] = count

        # Each row so far has the same chance to be a reference row.
        place = rows
        if rows == most:
            place = int(uniform(seeds[key], PLACE, seen[key]) * seen[key])
        if place < most:
            put(reference[place], x)
            rows = max(rows, place + 1)
            counts[key, 2] = rows
        if count == budget and slot >= 0:
            span(code, prototypes, reference, rows, ridge, Q, W, T)
        elif count == budget and place < most:
            fill_row(code, prototypes, count, x, W[place])
            inverse.product(Q, count, W[place], T[place])


@compiled
def span(code, prototypes, reference, rows, ridge, Q, W, T):
    """Q, kernel rows W of the reference rows and T = W Q, from the prototypes and the reference rows alone."""
    count = len(prototypes)
    Q[:count, :count] = 0.0
    inverse.invert(code, prototypes, count, ridge, Q)
    for r in range(rows):
        fill_row(code, prototypes, count, reference[r], W[r])
        inverse.product(Q, count, W[r], T[r])


@compiled
def best_swap(Q, W, T, rows, u, schur, d):
    """The slot that x gains most in, the first of equals, and the gain. d: kernel row of x against the reference rows."""
    count, whole = len(Q), 0.0
    along, own = np.zeros(count), np.zeros(count)
    for r in range(rows):
        d[r] -= dot(W[r], u)
        whole += d[r] * d[r]
        lost, row = d[r], T[r]
        for i in range(count):
            along[i] += row[i] * lost
            own[i] += row[i] * row[i]
    slot, most = -1, -np.inf
    for i in range(count):
        share = u[i] / schur
        leaves = own[i] - 2.0 * share * along[i] + share * share * whole
        gain = (whole / schur - leaves / (Q[i, i] + u[i] * share)) / max(rows, 1)
        if gain > most:
            slot, most = i, gain
    return slot, most
