"""The kernel filters as their papers print them, in plain NumPy: every row solves or inverts with whole matrices again.

Each takes the rows of one stream, Y without gaps, and gives the predictions (n, targets) made before each row is learned,
the numbers of the rows that are stored at the end, and their weights.
"""

from collections.abc import Callable

import numpy as np

from algorithms.common.protocol import Array

Kernel = Callable[[Array, Array], Array]  # rows (n, d), (m, d) -> (n, m)
Run = tuple[Array, list[int], Array]


def klms(kernel: Kernel, X: Array, Y: Array, *, step_size: float, budget: int = 0) -> Run:
    return qklms(kernel, X, Y, step_size=step_size, quantum=-1.0, budget=budget)


def qklms(kernel: Kernel, X: Array, Y: Array, *, step_size: float, quantum: float, budget: int = 0) -> Run:
    chosen: list[int] = []
    W, predictions = np.empty((0, Y.shape[1])), []
    for n, (x, y) in enumerate(zip(X, Y, strict=True)):
        predictions.append(kernel(x[None], X[chosen])[0] @ W)
        step = step_size * (y - predictions[-1])
        gaps = ((X[chosen] - x) ** 2).sum(axis=1)
        if chosen and gaps.min() <= quantum:
            W[gaps.argmin()] += step
            continue
        chosen, W = [*chosen, n], np.vstack([W, step])
        if budget and len(chosen) > budget:
            K = kernel(X[chosen], X[chosen])
            leaving = int(((W**2).sum(axis=1) * np.diag(K)).argmin())
            alike = K[leaving] ** 2 / np.diag(K)
            alike[leaving] = -1
            heir = int(alike.argmax())
            W[heir] += W[leaving] * K[leaving, heir] / K[heir, heir]
            del chosen[leaving]
            W = np.delete(W, leaving, axis=0)
    return np.array(predictions), chosen, W


def knlms(kernel: Kernel, X: Array, Y: Array, *, step_size: float, coherence_below: float, ridge: float, loss: str) -> Run:
    chosen: list[int] = []
    W, predictions = np.empty((0, Y.shape[1])), []
    for n, (x, y) in enumerate(zip(X, Y, strict=True)):
        predictions.append(kernel(x[None], X[chosen])[0] @ W)
        norms = np.sqrt(np.diag(kernel(X[chosen], X[chosen])) * kernel(x[None], x[None])[0, 0])
        if not (np.abs(kernel(x[None], X[chosen])[0]) > coherence_below * norms).any():
            chosen, W = [*chosen, n], np.vstack([W, np.zeros(Y.shape[1])])
        h = kernel(x[None], X[chosen])[0]
        error = y - predictions[-1]
        if loss == "hinge":
            side = np.where(y > 0, 1.0, -1.0)
            error = side * np.maximum(0.0, 1.0 - side * predictions[-1])
        W = W + step_size * np.outer(h, error) / (ridge + h @ h)
    return np.array(predictions), chosen, W


def krls(kernel: Kernel, X: Array, Y: Array, *, ald_above: float, forgetting: float, budget: int = 0) -> Run:
    """Fig. 1 of Engel et al., every inverse recomputed; with a budget the values f(D) and P are kept for the others."""
    chosen: list[int] = []
    W, P, predictions = np.empty((0, Y.shape[1])), np.empty((0, 0)), []
    for n, (x, y) in enumerate(zip(X, Y, strict=True)):
        k = kernel(X[chosen], x[None])[:, 0]
        K = kernel(X[chosen], X[chosen])
        predictions.append(k @ W)
        a = np.linalg.solve(K, k) if chosen else k
        delta = kernel(x[None], x[None])[0, 0] - k @ a
        error, leaving = y - predictions[-1], -1
        if delta > ald_above and budget and len(chosen) == budget:
            changes = (W**2).sum(axis=1) / np.diag(np.linalg.inv(K))
            worth = delta * (error @ error) / (1 + delta) ** 2
            leaving = int(changes.argmin()) if worth > changes.min() else budget
        if delta <= ald_above or leaving == budget:
            gain = P @ a / (forgetting + a @ P @ a)
            P = (P - np.outer(gain, a @ P)) / forgetting
            W = W + np.linalg.solve(K, np.outer(gain, error))
            continue
        W = np.vstack([W - np.outer(a, error) / delta, error / delta])
        m = len(chosen)
        P = np.block([[P / forgetting, np.zeros((m, 1))], [np.zeros((1, m)), np.ones((1, 1))]])
        chosen = [*chosen, n]
        if leaving >= 0:
            values = kernel(X[chosen], X[chosen]) @ W
            chosen = [number for place, number in enumerate(chosen) if place != leaving]
            values, P = np.delete(values, leaving, axis=0), np.delete(np.delete(P, leaving, 0), leaving, 1)
            W = np.linalg.solve(kernel(X[chosen], X[chosen]), values)
    return np.array(predictions), chosen, W


def exkrls(
    kernel: Kernel, X: Array, Y: Array, *, transition: float, forgetting: float, state_noise: float, ridge: float
) -> Run:
    """The recursion of Liu et al. with beta^i and rho as printed, from rho(0) = lambda."""
    W, Q, rho, predictions = np.empty((0, Y.shape[1])), np.empty((0, 0)), ridge, []
    for n, (x, y) in enumerate(zip(X, Y, strict=True)):
        power = forgetting ** (n + 1)
        h = kernel(X[:n], x[None])[:, 0]
        predictions.append(h @ W)
        z = Q @ h
        r = power * rho + kernel(x[None], x[None])[0, 0] - h @ z
        W = transition * np.vstack([W - np.outer(z, y - predictions[-1]) / r, (y - predictions[-1]) / r])
        fade = transition**2 + power * state_noise * rho
        Q = transition**2 / fade * np.block([[Q + np.outer(z, z) / r, -z[:, None] / r], [-z[None] / r, np.ones((1, 1)) / r]])
        rho = rho / fade
    return np.array(predictions), list(range(len(X))), W


def function_space_filter(
    kernel: Kernel,
    X: Array,
    Y: Array,
    *,
    transition: float,
    forgetting: float,
    state_noise: float,
    ridge: float,
    budget: int,
    jitter: float,
) -> Run:
    """Ex-KRLS on a budget as a Kalman filter on the values of f at all rows of X: mean and covariance, no expansion.

    What leaves is projected: the mean and what is known of f go over to the span of the others. Gives predictions, the
    stored rows and the weights that have those values on them.
    """
    G = kernel(X, X)
    mean, cov = np.zeros((len(X), Y.shape[1])), G / ridge
    chosen: list[int] = []
    predictions = []
    unknown = 1 / ridge  # variance per kernel of what nothing was learned of
    for n, y in enumerate(Y):
        predictions.append(mean[n].copy())
        gain = cov[:, n] / (forgetting + cov[n, n])
        mean = transition * (mean + np.outer(gain, y - mean[n]))
        cov = transition**2 * (cov - np.outer(gain, cov[n])) / forgetting + state_noise * G
        unknown = transition**2 * unknown / forgetting + state_noise
        chosen = [*chosen, n]
        if len(chosen) > budget:
            K = G[np.ix_(chosen, chosen)] + jitter * np.eye(len(chosen))
            W = np.linalg.solve(K, mean[chosen])
            inverse = np.linalg.inv(K)
            leaving = int(((W**2).sum(axis=1) / np.diag(inverse)).argmin())
            chosen = [number for place, number in enumerate(chosen) if place != leaving]
            onto = np.linalg.solve(G[np.ix_(chosen, chosen)] + jitter * np.eye(budget), G[chosen]).T
            mean = onto @ mean[chosen]
            known = unknown * G - cov
            cov = unknown * G - onto @ known[np.ix_(chosen, chosen)] @ onto.T
    W = np.linalg.solve(G[np.ix_(chosen, chosen)] + jitter * np.eye(len(chosen)), mean[chosen])
    return np.array(predictions), chosen, W


def exrls(
    Z: Array, Y: Array, *, transition: float, forgetting: float, state_noise: float, ridge: float
) -> tuple[Array, Array]:
    """The linear one, in matrices: predictions and weights."""
    W, P, predictions = np.zeros((Z.shape[1], Y.shape[1])), np.eye(Z.shape[1]) / ridge, []
    A = transition * np.eye(Z.shape[1])
    for z, y in zip(Z, Y, strict=True):
        predictions.append(W.T @ z)
        gain = P @ z / (forgetting + z @ P @ z)
        W = A @ (W + np.outer(gain, y - W.T @ z))
        P = A @ (P - np.outer(gain, z @ P)) @ A.T / forgetting + forgetting * state_noise * np.eye(len(z))
    return np.array(predictions), W
