"""The plain controls, computed from all earlier rows again for every row."""

from collections.abc import Callable

import numpy as np

from algorithms.common.protocol import Array

Kernel = Callable[[Array, Array], Array]  # rows (n, d), (m, d) -> (n, m)


def running_mean(kernel: Kernel, X: Array, *, decay: float) -> tuple[Array, Array]:
    """LS errors (n,), NaN for the first row, and the mean at the end: |phi(x) - phi(m)|^2, m weighted by decay^age."""
    errors, mean = np.full(len(X), np.nan), X[0]
    for n in range(1, len(X) + 1):
        mean = np.average(X[:n], axis=0, weights=decay ** np.arange(n)[::-1])
        if n < len(X):
            K = kernel(np.array([X[n], mean]), np.array([X[n], mean]))
            errors[n] = K[0, 0] - 2 * K[0, 1] + K[1, 1]
    return errors, mean


def last_points(kernel: Kernel, X: Array, *, rank: int, ridge: float) -> tuple[Array, Array]:
    """Features (n, rank) and LS errors (n,) by projection on the `rank` rows before each, NaN while there are fewer."""
    features, errors = np.full((len(X), rank), np.nan), np.full(len(X), np.nan)
    for n in range(rank, len(X)):
        points, x = X[n - rank : n], X[n : n + 1]
        K, k = kernel(points, points), kernel(points, x)[:, 0]
        q = np.linalg.solve(K + ridge * np.eye(rank), k)  # (11b) with A = I
        features[n] = np.linalg.cholesky(K).T @ q
        errors[n] = kernel(x, x)[0, 0] - 2 * k @ q + q @ K @ q
    return features, errors
