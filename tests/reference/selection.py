"""Prototype selection by log-determinant and by coherence, and regression behind it, as the BlockGreedy paper prints them.

Every criterion is a determinant made from nothing, every swap is tried; regression keeps every row it was taught.
"""

import numpy as np

from algorithms.common.protocol import Array
from tests.reference.prototypes import Kernel, project

MAP_RIDGE = 1e-6


def log_det(kernel: Kernel, S: Array, ridge: float) -> float:
    """g(S) = log det (K_S + lambda I), 0 of nothing."""
    return float(np.linalg.slogdet(kernel(S, S) + ridge * np.eye(len(S)))[1]) if len(S) else 0.0


def swapped(chosen: list[int], slot: int, n: int) -> list[int]:
    return [n if i == slot else row for i, row in enumerate(chosen)]


def best_swap(kernel: Kernel, X: Array, chosen: list[int], n: int, ridge: float) -> tuple[int, float]:
    """Alg. 1: the slot whose replacement by row n makes g largest, and the gain."""
    values = [log_det(kernel, X[swapped(chosen, slot, n)], ridge) for slot in range(len(chosen))]
    slot = int(np.argmax(values))
    return slot, values[slot] - log_det(kernel, X[chosen], ridge)


def coherence_of(kernel: Kernel, X: Array, chosen: list[int], n: int) -> float:
    if not chosen:
        return 0.0
    own = np.array([kernel(X[[i]], X[[i]])[0, 0] for i in [*chosen, n]])
    return float((np.abs(kernel(X[chosen], X[[n]])[:, 0]) / np.sqrt(own[:-1] * own[-1])).max())


class Taught:
    """Ridge regression on prototypes; rows are kept in today's coordinates and solved with anew at every question."""

    def __init__(self, kernel: Kernel, form: str, ridge: float, resets: bool = False) -> None:
        self.kernel, self.form, self.ridge, self.resets = kernel, form, ridge, resets
        self.rows: Array | None = None
        self.targets: list[Array] = []

    def coordinates(self, S: Array, x: Array) -> Array:
        return project(self.kernel, S, x, MAP_RIDGE)[0] if self.form == "nystrom" else self.kernel(S, x[None])[:, 0]

    def predict(self, S: Array, labels: Array, x: Array) -> Array:
        """S in the order of the coordinates: of arrival for nystrom, of the slots otherwise; labels (m, targets) of S."""
        if self.form == "labels":
            if not len(S):
                return np.zeros(labels.shape[1])
            return self.kernel(x[None], S)[0] @ np.linalg.solve(self.kernel(S, S) + self.ridge * np.eye(len(S)), labels)
        if not self.targets:
            return np.zeros(labels.shape[1])
        V, Y = self.rows, np.array(self.targets)
        return self.coordinates(S, x) @ np.linalg.solve(V.T @ V + self.ridge * np.eye(V.shape[1]), V.T @ Y)

    def moved(self, old: Array, new: Array, swap: bool) -> None:
        """Earlier rows as far as the old set spans them, in the coordinates of the new one."""
        if self.rows is None or self.form == "labels":
            return
        if swap and self.resets:
            self.rows, self.targets = None, []
            return
        K_old, K_new, between = (  # a sample has the ridge with itself
            self.kernel(A, B) + MAP_RIDGE * (A[:, None] == B[None]).all(axis=2)
            for A, B in ((old, old), (new, new), (old, new))
        )
        C = np.linalg.solve(K_old, between)  # k_new = C' k_old
        if self.form == "features":
            self.rows = self.rows @ C
            return
        L_old, L_new = np.linalg.cholesky(K_old), np.linalg.cholesky(K_new)
        self.rows = self.rows @ (np.linalg.solve(L_new, C.T @ L_old)).T

    def teach(self, S: Array, x: Array, y: Array) -> None:
        if self.form == "labels":
            return
        v = self.coordinates(S, x)[None]
        self.rows = v if self.rows is None else np.concatenate([self.rows, v])
        self.targets.append(y)


def select(
    kernel: Kernel,
    X: Array,
    Y: Array,
    *,
    budget: int,
    rule: str = "greedy",
    ridge: float = 1.0,
    min_gain: float = 0.01,
    relative: bool = False,
    stop_after: int = 0,
    above: float = 0.5,
    regress: str = "nystrom",
    regress_ridge: float = 0.01,
    resets: bool = False,
) -> tuple[dict[str, Array], list[int]]:
    """Features, LS errors and predictions of every row before it is learned; numbers of the rows in the slots, from 1."""
    chosen: list[int] = []
    features, errors, predictions = np.zeros((len(X), budget)), np.empty(len(X)), np.zeros(Y.shape)
    taught, latest = Taught(kernel, regress, regress_ridge, resets), 0

    def in_order(slots: list[int]) -> Array:
        return X[sorted(slots) if regress == "nystrom" else slots].reshape(-1, X.shape[1])

    for n, x in enumerate(X):
        z, errors[n] = project(kernel, X[sorted(chosen)].reshape(-1, X.shape[1]), x, MAP_RIDGE)
        features[n, : len(z)] = z
        predictions[n] = taught.predict(in_order(chosen), Y[chosen].reshape(-1, Y.shape[1]), x)
        new = chosen
        if len(chosen) < budget:
            if rule != "coherence" or coherence_of(kernel, X, chosen, n) <= above:
                new = [*chosen, n]
        elif rule != "coherence" and not (stop_after and n + 1 - latest > stop_after):
            slot, gain = best_swap(kernel, X, chosen, n, ridge)
            if gain >= min_gain * (abs(log_det(kernel, X[chosen], ridge)) if relative else 1.0) and gain > 0:
                new = swapped(chosen, slot, n)
        if new != chosen:
            latest = n + 1
            if chosen:
                taught.moved(in_order(chosen), in_order(new), len(new) == len(chosen))
            chosen = new
        taught.teach(in_order(chosen), x, Y[n])
    return {"features": features, "ls_error": errors, "prediction": predictions}, [n + 1 for n in chosen]


def sieves(kernel: Kernel, X: Array, *, budget: int, epsilon: float, ridge: float) -> tuple[dict[str, Array], list[int]]:
    """SieveStreaming: a set for each threshold (1 + epsilon)^i in [m, 2 k m]; the best set so far gives features."""
    sets: dict[int, list[int]] = {}
    best: list[int] = []
    features, errors, highest = np.zeros((len(X), budget)), np.empty(len(X)), 0.0
    for n, x in enumerate(X):
        z, errors[n] = project(kernel, X[best].reshape(-1, X.shape[1]), x, MAP_RIDGE)
        features[n, : len(z)] = z
        highest = max(highest, log_det(kernel, X[[n]], ridge))
        levels = [i for i in range(-200, 201) if highest <= (1 + epsilon) ** i <= 2 * budget * highest]
        sets = {i: sets.get(i, []) for i in levels}
        for i, rows in sets.items():
            own = log_det(kernel, X[rows], ridge)
            gain = log_det(kernel, X[[*rows, n]], ridge) - own
            if len(rows) < budget and gain >= ((1 + epsilon) ** i / 2 - own) / (budget - len(rows)):
                sets[i] = [*rows, n]
            if log_det(kernel, X[sets[i]], ridge) > log_det(kernel, X[best], ridge) + 1e-12:
                best = sets[i]
    return {"features": features, "ls_error": errors}, [n + 1 for n in best]


def spanned(kernel: Kernel, S: Array, reference: Array, ridge: float) -> float:
    """Eq. (4) with omega = 1: the mean of k' (K_S + lambda I)^-1 k over the reference rows."""
    K = kernel(reference, S)
    return float((K * np.linalg.solve(kernel(S, S) + ridge * np.eye(len(S)), K.T).T).sum(axis=1).mean())


def generalised(
    kernel: Kernel, X: Array, places: list[int], *, budget: int, reference: int, ridge: float, min_gain: float
) -> tuple[dict[str, Array], list[int]]:
    """Every swap tried with the criterion made from nothing; row n takes places[n] of the full reference sample."""
    chosen: list[int] = []
    held: list[int] = []
    features, errors = np.zeros((len(X), budget)), np.empty(len(X))
    for n, x in enumerate(X):
        z, errors[n] = project(kernel, X[chosen].reshape(-1, X.shape[1]), x, MAP_RIDGE)
        features[n, : len(z)] = z
        if len(chosen) < budget:
            chosen = [*chosen, n]
        else:
            values = [spanned(kernel, X[swapped(chosen, slot, n)], X[held], ridge) for slot in range(budget)]
            slot = int(np.argmax(values))
            gain = values[slot] - spanned(kernel, X[chosen], X[held], ridge)
            if gain >= min_gain and gain > 0:
                chosen = swapped(chosen, slot, n)
        if len(held) < reference:
            held.append(n)
        elif places[n] < reference:
            held[places[n]] = n
    return {"features": features, "ls_error": errors}, [n + 1 for n in chosen]
