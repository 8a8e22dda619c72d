"""Kernel classifiers that Fig. 9 of the OK-FEB paper compares with, plainly: f(x) = sum_i weights[i] kappa(rows[i], x).

Unbudgeted: perceptron (Rosenblatt; Freund, Schapire 1999), NORMA (Kivinen, Smola, Williamson 2004), OGD. On a budget: BOGD
with uniform removal (Zhao et al. 2012), the self-tuned Forgetron (Dekel, Shalev-Shwartz, Singer 2008), Projectron that
projects once it is full (Orabona, Keshet, Caputo 2009), BPA-S (Wang, Vucetic 2010). For the figure alone, no learners.
"""

from collections.abc import Callable

import numpy as np

from algorithms.common.protocol import Array

STEP, SHRINK, AGGRESSIVENESS = 0.2, 1e-4, 1.0  # eta, lambda and C, the same for every row
CAP = 5.0  # of BOGD's weights, in steps


class Expansion:
    """Stored rows and their weights, gaussian kernel exp(-d^2 / gamma)."""

    def __init__(self, dim: int, gamma: float, budget: int) -> None:
        self.rows, self.lengths2, self.weights = np.empty((64, dim)), np.empty(64), np.empty(64)
        self.count, self.gamma, self.budget = 0, gamma, budget  # budget 0: unlimited
        self.mistakes, self.spent = 0, 0.0  # Forgetron's M and Q
        self.inverse: Array | None = None  # Projectron's K^-1, once the stored rows never change again
        self.random = np.random.default_rng(0)

    @property
    def full(self) -> bool:
        return 0 < self.budget <= self.count

    @property
    def w(self) -> Array:
        return self.weights[: self.count]

    def kernel(self, x: Array) -> Array:
        """kappa(rows, x), (count,)."""
        gaps2 = self.lengths2[: self.count] - 2 * (self.rows[: self.count] @ x) + x @ x
        return np.exp(-np.maximum(gaps2, 0.0) / self.gamma)

    def add(self, x: Array, weight: float) -> None:
        if self.count == len(self.weights):
            self.rows = np.vstack([self.rows, np.empty_like(self.rows)])
            self.lengths2, self.weights = np.resize(self.lengths2, len(self.rows)), np.resize(self.weights, len(self.rows))
        self.rows[self.count], self.lengths2[self.count], self.weights[self.count] = x, x @ x, weight
        self.count += 1

    def drop(self, i: int) -> None:
        for values in (self.rows, self.lengths2, self.weights):
            values[i : self.count - 1] = values[i + 1 : self.count]
        self.count -= 1


def perceptron(f: Expansion, x: Array, y: float, score: float, k: Array) -> None:
    if y * score <= 0:
        f.add(x, y)


def norma(f: Expansion, x: Array, y: float, score: float, k: Array) -> None:
    f.weights[: f.count] *= 1 - STEP * SHRINK
    if y * score < 1:
        f.add(x, STEP * y)


def ogd(f: Expansion, x: Array, y: float, score: float, k: Array) -> None:
    if y * score < 1:
        f.add(x, STEP * y)


def bogd(f: Expansion, x: Array, y: float, score: float, k: Array) -> None:
    f.weights[: f.count] *= 1 - STEP * SHRINK
    if y * score >= 1:
        return
    if f.full:  # the others make up for the one that leaves, in the mean
        f.drop(int(f.random.integers(f.count)))
        f.weights[: f.count] = np.clip(f.w * f.budget / (f.budget - 1), -CAP * STEP, CAP * STEP)
    f.add(x, STEP * y)


def forgetron(f: Expansion, x: Array, y: float, score: float, k: Array) -> None:
    if y * score > 0:
        return
    f.mistakes += 1
    f.add(x, y)
    if f.count <= f.budget:
        return
    oldest = f.rows[0]
    sigma, mu = abs(f.weights[0]), float(np.sign(f.weights[0]) * (f.w @ f.kernel(oldest)))
    a, b, c = sigma**2 - 2 * sigma * mu, 2 * sigma, f.spent - 15 / 32 * f.mistakes
    shrink = 1.0
    if a + b + c > 0:  # the largest factor whose damage fits: a s^2 + b s + c = 0
        shrink = float(np.clip(-2 * c / (b + np.sqrt(max(b * b - 4 * a * c, 0.0))), 0.0, 1.0))
    f.spent += a * shrink**2 + b * shrink
    f.weights[: f.count] *= shrink
    f.drop(0)


def projectron(f: Expansion, x: Array, y: float, score: float, k: Array) -> None:
    if y * score > 0:
        return
    if not f.full:
        f.add(x, y)
        return
    if f.inverse is None:
        K = np.stack([f.kernel(row) for row in f.rows[: f.count]])
        f.inverse = np.linalg.pinv(K, rcond=1e-10, hermitian=True)
    f.weights[: f.count] += y * (f.inverse @ k)


def bpas(f: Expansion, x: Array, y: float, score: float, k: Array) -> None:
    if y * score >= 1:
        return
    if not f.full:
        f.add(x, y * min(AGGRESSIVENESS, 1 - y * score))
        return
    left = score - f.w * k  # without each of them
    step = np.clip(1 - y * left, 0.0, AGGRESSIVENESS)
    moved = f.w**2 + step**2 - 2 * f.w * y * step * k
    cost = 0.5 * moved + AGGRESSIVENESS * np.maximum(1 - y * (left + y * step), 0.0)
    leaving = int(cost.argmin())
    f.drop(leaving)
    f.add(x, y * float(step[leaving]))


UNBUDGETED: dict[str, Callable[..., None]] = {"perceptron": perceptron, "NORMA": norma, "OGD": ogd}
BUDGETED: dict[str, Callable[..., None]] = {
    "BOGD": bogd,
    "Forgetron": forgetron,
    "Projectron": projectron,
    "BPA-S": bpas,
}


def scores(update: Callable[..., None], X: Array, y: Array, gamma: float, budget: int) -> tuple[Array, int]:
    """Scores (n,) of every row before it was learned, and how many rows are stored at the end."""
    f, found = Expansion(X.shape[1], gamma, budget), np.empty(len(X))
    for n, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        k = f.kernel(x)
        found[n] = f.w @ k
        update(f, x, label, found[n], k)
    return found, f.count
