"""Prototype selection as the papers print it, in plain NumPy: every row solves with the whole gram matrix again."""

from collections.abc import Callable

import numpy as np

from algorithms.common.protocol import Array

Kernel = Callable[[Array, Array], Array]  # rows (n, d), (m, d) -> (n, m)


def gaussian(bandwidth: float) -> Kernel:
    return lambda A, B: np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2) / (2 * bandwidth**2))


def project(kernel: Kernel, prototypes: Array, x: Array, ridge: float) -> tuple[Array, float]:
    """Coordinates of phi(x) along the prototypes, orthogonalised in their order, and the ALD residual."""
    kxx = kernel(x[None], x[None])[0, 0]
    if len(prototypes) == 0:
        return np.empty(0), kxx
    L = np.linalg.cholesky(kernel(prototypes, prototypes) + ridge * np.eye(len(prototypes)))
    k = kernel(prototypes, x[None])[:, 0]
    return np.linalg.solve(L, k), kxx - k @ np.linalg.solve(L @ L.T, k)


def ald(kernel: Kernel, X: Array, *, above: float, budget: int, ridge: float) -> tuple[Array, Array, list[int]]:
    """Features (n, budget) and residuals (n,) before each row is learned; numbers of the rows that entered, from 1."""
    chosen: list[int] = []
    features, residuals = np.zeros((len(X), budget)), np.empty(len(X))
    for n, x in enumerate(X):
        z, residuals[n] = project(kernel, X[chosen], x, ridge)
        features[n, : len(z)] = z
        if residuals[n] > above and len(chosen) < budget:
            chosen.append(n)
    return features, residuals, [n + 1 for n in chosen]


def reservoir(kernel: Kernel, X: Array, places: list[int], *, budget: int, ridge: float) -> tuple[Array, Array, list[int]]:
    """The same for a reservoir; row n takes places[n] where that is below the budget."""
    chosen: list[int] = []
    features, residuals = np.zeros((len(X), budget)), np.empty(len(X))
    for n, x in enumerate(X):
        z, residuals[n] = project(kernel, X[chosen], x, ridge)
        features[n, : len(z)] = z
        if len(chosen) < budget:
            chosen.append(n)
        elif places[n] < budget:
            chosen[places[n]] = n
    return features, residuals, [n + 1 for n in chosen]
