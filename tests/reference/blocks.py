"""BlockGreedy as Alg. 2 and 3 of its paper print it: determinants of blocks made from nothing, k-means in plain NumPy."""

import numpy as np

from algorithms.common.protocol import Array
from tests.reference.prototypes import Kernel
from tests.reference.selection import MAP_RIDGE, Taught, log_det


def k_means(points: Array, means: Array) -> tuple[Array, Array]:
    """Blocks and means after at most 20 rounds; a block without points keeps its mean."""
    block = np.full(len(points), -1)
    for _ in range(20):
        new = ((points[:, None] - means[None]) ** 2).sum(axis=2).argmin(axis=1)
        if (new == block).all():
            break
        block = new
        means = np.array([points[block == m].mean(axis=0) if (block == m).any() else means[m] for m in range(len(means))])
    return block, means


def far_apart(points: Array, several: int) -> Array:
    chosen = [0]
    while len(chosen) < several:
        gaps2 = ((points[:, None] - points[chosen][None]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(int(gaps2.argmax()))
    return points[chosen]


class PlainBlocks:
    """A set of prototypes in blocks: slots of the members of each."""

    def __init__(self, kernel: Kernel, budget: int, block_size: int, ridge: float) -> None:
        self.kernel, self.budget, self.several, self.ridge = kernel, budget, budget // block_size, ridge
        self.chosen: list[int] = []
        self.block: list[int] = []
        self.means: Array | None = None
        self.estimate, self.added, self.clusterings = 0.0, 0, 0

    def g(self, X: Array, rows: list[int]) -> float:
        return log_det(self.kernel, X[rows], self.ridge)

    def rows_of(self, own: int) -> list[int]:
        return [row for row, block in zip(self.chosen, self.block, strict=True) if block == own]

    def follow(self, X: Array) -> None:
        """Means of the members; of an emptied block the last one."""
        for own in range(self.several):
            rows = self.rows_of(own)
            if rows:
                self.means[own] = X[rows].mean(axis=0)

    def nearest(self, x: Array) -> int:
        present = max(self.block) + 1 if not self.clusterings and len(self.chosen) < self.budget else self.several
        return int(((self.means[:present] - x) ** 2).sum(axis=1).argmin())

    def swap(self, X: Array, n: int, everywhere: bool) -> tuple[int, float, int]:
        """Alg. 3: the slot that row n takes, the gain, and its block."""
        own = self.nearest(X[n])
        members = self.rows_of(own)
        before = self.g(X, members)
        options = []  # (gain, slot), the block's own first
        for row in members:
            options.append((self.g(X, [n if r == row else r for r in members]) - before, self.chosen.index(row)))
        gain, slot = max(options, key=lambda option: option[0], default=(-np.inf, -1))
        if everywhere:
            losses = []
            for other in range(self.several):
                rows = self.rows_of(other)
                if other != own and rows:
                    without = [(self.g(X, rows) - self.g(X, [r for r in rows if r != row]), row) for row in rows]
                    losses.append(min(without, key=lambda loss: loss[0]))
            if losses:
                loss, row = min(losses, key=lambda loss: loss[0])
                other_gain = self.g(X, [*members, n]) - before - loss
                if other_gain > gain:
                    gain, slot = other_gain, self.chosen.index(row)
        return slot, gain, own

    def ls_error(self, X: Array, x: Array) -> float:
        """Of the nearest block's span."""
        own = float(self.kernel(x[None], x[None])[0, 0])
        if not self.chosen:
            return own
        S = X[self.rows_of(self.nearest(x))]
        k = self.kernel(S, x[None])[:, 0]
        return own - float(k @ np.linalg.solve(self.kernel(S, S) + MAP_RIDGE * np.eye(len(S)), k))


def block_greedy(
    kernel: Kernel,
    X: Array,
    Y: Array,
    *,
    budget: int,
    block_size: int,
    ridge: float = 1.0,
    min_gain: float = 0.01,
    recluster: bool = True,
    neighbours: str = "all",
    regress: str = "nystrom",
    regress_ridge: float = 0.01,
) -> tuple[dict[str, Array], PlainBlocks]:
    """Features, LS errors and predictions of every row before it is learned, and the set at the end."""
    plain, taught = PlainBlocks(kernel, budget, block_size, ridge), Taught(kernel, regress, regress_ridge)
    plain.means = np.zeros((plain.several, X.shape[1]))
    features, errors, predictions = np.zeros((len(X), budget)), np.empty(len(X)), np.zeros(Y.shape)

    def in_order(slots: list[int]) -> Array:
        return X[sorted(slots)].reshape(-1, X.shape[1])

    for n, x in enumerate(X):
        old = list(plain.chosen)
        if old:
            features[n, : len(old)] = kernel(X[old], x[None])[:, 0]
        errors[n] = plain.ls_error(X, x)
        predictions[n] = taught.predict(in_order(old), Y[sorted(old)].reshape(-1, Y.shape[1]), x)
        if len(old) < budget:
            own = min(len(old) * plain.several // budget, plain.several - 1)
            plain.estimate += plain.g(X, [*plain.rows_of(own), n]) - plain.g(X, plain.rows_of(own))
            plain.chosen.append(n)
            plain.block.append(own)
        else:
            slot, gain, own = plain.swap(X, n, neighbours == "all")
            if gain >= min_gain:
                plain.chosen[slot], plain.block[slot] = n, own
                plain.estimate += gain
        if plain.chosen != old:
            plain.added += 1
            if old:
                taught.moved(in_order(old), in_order(plain.chosen), len(old) == budget)
            plain.follow(X)
        if recluster and plain.added >= budget:
            points = X[plain.chosen]
            begin = plain.means if plain.clusterings else far_apart(points, plain.several)
            block, plain.means = k_means(points, begin)
            plain.block, plain.added, plain.clusterings = block.tolist(), 0, plain.clusterings + 1
            plain.estimate = sum(plain.g(X, plain.rows_of(own)) for own in range(plain.several))
        taught.teach(in_order(plain.chosen), x, Y[n])
    return {"features": features, "ls_error": errors, "prediction": predictions}, plain
