"""SieveStreaming: one set of prototypes for each guess of the best log-determinant; the best set so far gives the map.

Source: Badanidiyuru, Mirzasoleiman, Karbasi, Krause (2014), Streaming submodular maximization, Alg. 3; a comparator of
the BlockGreedy paper, Fig. 1 and 2.
Symbols: k = budget, epsilon = epsilon, f(S) = log det (K_S + ridge I), m = highest f of a single row, v = (1 + epsilon)^i.
Cost of a row: O(n (b d + b^2 / 2)) with n about log(2 b) / epsilon sieves, 22 with the default settings, at most 32.
State: n b (d + 2) numbers at most, and b (d + 1) of the best set.
Readings: sieves are kept for v in [m, 2 k m]; x enters one that is not full when its gain is at least
(v / 2 - f(S)) / (k - |S|). Those below m end when m grows, new ones begin empty. The output is the best set there ever was
(the first of equals, the lowest threshold), and as m does not move with a normalised kernel, it rarely turns to another one.
Features are z = U'^-1 k of `whitened_map.py`; where the output turns to another set, heads get the change of basis.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import extend, factor, whiten
from algorithms.common.kernels import fill_row, own_value, value
from algorithms.common.linalg import missing, norm2, put, remove_at, remove_row
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.prototypes.family import FAR
from algorithms.prototypes.turning_map import RIDGE
from algorithms.prototypes.whitened_map import MapLearner, change_of_set, locate

MOST_SIEVES = 32
MOST_ROWS = 200_000  # of all sieves together


class SieveState(NamedTuple):
    prototypes: Array  # (m, dim) of the best set, in order of arrival
    arrival: Array  # (m,) int64, number of the row each was, from 1
    members: Array  # (r, dim) of all sieves, in order of arrival
    member_arrival: Array  # (r,) int64
    member_level: Array  # (r,) int64, exponent of the sieve's threshold
    highest: float  # m
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class SieveStreaming(MapLearner):
    """Prototypes of large log-determinant in one pass, from many candidate sets; features are coordinates in the best set.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = SieveStreaming(budget=2, epsilon=0.1, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[0.0], [0.1], [5.0]])
    >>> state.prototypes.ravel(), state.arrival
    (array([0., 5.]), array([1, 3]))
    """

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("prototypes", "arrival"),
        ("members", "member_arrival", "member_level"),
    )
    moves: ClassVar[bool] = True

    budget: Annotated[int, "1 to 10000"] = 100  # most prototypes of a set
    epsilon: Annotated[float, "0.1 to 1"] = 0.3  # ratio of neighbouring thresholds, less 1
    ridge: Annotated[float, "1e-12 to 1e12"] = 1.0  # lambda of the criterion, 1e-12 to 1e12; the map has 1e-6

    def check(self) -> None:
        fits = f"large enough for at most {MOST_SIEVES} sieves, with budget {self.budget}; this one makes {self.sieves}"
        require(self, "epsilon", self.sieves <= MOST_SIEVES, fits)
        most = MOST_ROWS // self.sieves
        require(
            self, "budget", self.budget <= most, f"at most {most} with {self.sieves} sieves (a larger epsilon has fewer)"
        )

    @property
    def sieves(self) -> int:
        """Most sieves side by side."""
        return int(np.log(2 * self.budget) / np.log1p(self.epsilon)) + 2

    def room(self, field: str) -> int | None:
        return self.sieves * self.budget if field.startswith("member") else self.budget

    def init(self, *, dim: int, targets: int, seed: int) -> SieveState:
        nothing = np.empty(0, np.int64)
        return SieveState(np.empty((0, dim)), nothing, np.empty((0, dim)), nothing.copy(), nothing.copy(), 0.0, 0)

    def caches(self, state: SieveState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        n, b = self.sieves, self.budget
        return {
            "gram_factor": np.zeros((b, b)),
            "value": np.zeros(1),
            "sets": np.zeros((n, b), np.int64),  # rows of `members`
            "sizes": np.zeros(n, np.int64),
            "levels": np.zeros(n, np.int64),
            "values": np.zeros(n),
            "factors": np.zeros((n, b, b)),
        }

    def derive(self, own: Slot) -> None:
        held = own.rows_within(self, "prototypes", self.budget, "prototypes")
        members = own.rows_within(self, "members", self.room("members"), "members", "limit")
        own["sizes"][:] = 0
        own["values"][:] = 0.0
        factor(self.kernel.code, own["prototypes"], 0, held, RIDGE, own["gram_factor"])
        sets = own["sets"], own["sizes"], own["levels"], own["values"], own["factors"]
        fits = restore(self.kernel.code, own["members"][:members], own["member_level"][:members], float(self.ridge), *sets)
        if not fits:
            raise ValueError(
                f"SieveStreaming: member_level names more sieves, or larger ones, than {self.sieves} of budget."
            )
        own["value"][0] = log_det(self.kernel.code, own["prototypes"][:held], float(self.ridge))

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        step = float(np.log1p(self.epsilon))
        _loop(tuple(work), slots, X, learn, out, basis, self.kernel.code, float(self.ridge), step)


@compiled
def _loop(work, slots, X, learn, out, basis, code, ridge, step):
    (all_prototypes, all_arrival, all_members, member_arrivals, member_levels, highest, seen, counts, maps, all_value,
     all_sets, all_sizes, all_levels, all_values, all_factors) = work  # fmt: skip
    budget, sieves = all_prototypes.shape[1], all_sizes.shape[1]
    k, z = np.empty(all_members.shape[1]), np.empty(budget)
    for n in range(len(X)):
        key, x = slots[n], X[n]
        if missing(x):
            continue
        kxx = own_value(code, x)
        if not kxx < FAR:
            continue
        prototypes, arrival, U = all_prototypes[key], all_arrival[key], maps[key]
        count, features = counts[key, 0], out.features[n]

        # Project on the best set so far.
        residual = locate(code, prototypes, count, x, kxx, U, k, features)
        out.ls_error[n] = residual
        if not learn[n] & LEARN_EXTRACTOR or not np.isfinite(residual):
            continue
        seen[key] += 1

        # Thresholds from m to 2 k m: those below end when m grows.
        sets, sizes, levels, values, factors = (
            all_sets[key], all_sizes[key], all_levels[key], all_values[key], all_factors[key]
        )  # fmt: skip
        single = np.log(kxx + ridge)
        highest[key] = max(highest[key], single)
        if not highest[key] > 0.0:
            continue
        low = int(np.ceil(np.log(highest[key]) / step))
        high = min(int(np.floor(np.log(2.0 * budget * highest[key]) / step)), low + sieves - 1)
        held = counts[key, 2]
        for i in range(sieves):
            if sizes[i] and levels[i] < low:
                held = _end(all_members[key], member_arrivals[key], member_levels[key], held, levels[i], sets, sizes)
                sizes[i], values[i] = 0, 0.0

        # Each sieve takes x where that gains enough; x is stored once for each.
        fill_row(code, all_members[key], held, x, k)
        stored, best = held, -1
        for level in range(low, high + 1):
            i = level % sieves
            if sizes[i] == 0:
                levels[i], values[i] = level, 0.0
            size = sizes[i]
            if size < budget:
                for t in range(size):
                    z[t] = k[sets[i, t]]
                whiten(factors[i], size, z)
                schur = max(kxx + ridge - norm2(z[:size]), ridge)
                gain = np.log(schur)
                if gain >= (np.exp(level * step) / 2.0 - values[i]) / (budget - size):
                    extend(factors[i], size, z, kxx, ridge)
                    put(all_members[key, stored], x)
                    member_arrivals[key, stored], member_levels[key, stored] = seen[key], level
                    sets[i, size] = stored
                    sizes[i] = size + 1
                    values[i] += gain
                    stored += 1
            if best < 0 or values[i] > values[best]:
                best = i
        counts[key, 2:5] = stored

        # The best set there ever was gives the map.
        if best < 0 or not values[best] > all_value[key, 0]:
            continue
        all_value[key, 0] = values[best]
        old, size, grows = prototypes[:count].copy(), sizes[best], sizes[best] == count + 1
        for t in range(size):
            grows = grows and (t == count or arrival[t] == member_arrivals[key, sets[best, t]])
        listens = basis.moved.size > 0 and not grows and count > 0
        before = U.copy() if listens else U[:0]
        out.admitted[n] = member_arrivals[key, sets[best, size - 1]] == seen[key]
        out.evicted[n] = not grows and count > 0
        for t in range(size):
            put(prototypes[t], all_members[key, sets[best, t]])
            arrival[t] = member_arrivals[key, sets[best, t]]
        factor(code, prototypes, count if grows else 0, size, RIDGE, U)
        counts[key, 0], counts[key, 1] = size, size
        if listens:
            basis.moved[n] = change_of_set(code, old, before, prototypes, size, U, basis.transfer[n])


@compiled
def _end(members, arrivals, levels, held, level, sets, sizes):
    """Drop the rows of one sieve; those of the others move up. Gives how many are left."""
    for row in range(held - 1, -1, -1):
        if levels[row] == level:
            remove_row(members, row, held)
            remove_at(arrivals, row, held)
            remove_at(levels, row, held)
            held -= 1
            for i in range(len(sizes)):
                for t in range(sizes[i]):
                    if sets[i, t] > row:
                        sets[i, t] -= 1
    return held


@compiled
def restore(code, members, levels, ridge, sets, sizes, sieve_levels, values, factors):
    """The sieves from their rows; False where the rows are of more sieves than there are, or of larger ones."""
    k, z = np.empty(sets.shape[1]), np.empty(sets.shape[1])
    for row in range(len(members)):
        i = levels[row] % len(sizes)
        size, x = sizes[i], members[row]
        if size == sets.shape[1] or (size and sieve_levels[i] != levels[row]):
            return False
        sieve_levels[i] = levels[row]
        for t in range(size):
            k[t] = value(code, members[sets[i, t]], x)
        kxx = own_value(code, x)
        put(z, k[:size])
        whiten(factors[i], size, z)
        values[i] += np.log(max(kxx + ridge - norm2(z[:size]), ridge))
        extend(factors[i], size, z, kxx, ridge)
        sets[i, size] = row
        sizes[i] = size + 1
    return True


@compiled
def log_det(code, samples, ridge):
    """log det (K + ridge I), summed as the sieves sum it."""
    U, k, total = np.zeros((len(samples), len(samples))), np.empty(len(samples)), 0.0
    for i in range(len(samples)):
        fill_row(code, samples, i, samples[i], k)
        whiten(U, i, k)
        kxx = own_value(code, samples[i])
        total += np.log(max(kxx + ridge - norm2(k[:i]), ridge))
        extend(U, i, k, kxx, ridge)
    return total
