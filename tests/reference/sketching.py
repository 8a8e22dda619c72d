"""SkeGD and its comparators on explicit features, in plain NumPy: every sketch and kernel matrix is made anew when needed.

The draws are those of the product, which are functions of integers.
"""

from typing import Any

import numpy as np

from algorithms.common.protocol import Array
from algorithms.common.randomness import normal, uniform
from tests.reference import Outputs, slow_reference

COLUMN, SIGN, LANDMARK = 1, 2, 3
MIXED = (0.01, 0.1, 0.5, 1.0, 0.0)


def gaussian(A: Array, B: Array, bandwidth: float) -> Array:
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2) / (2 * bandwidth**2))


def row_of_s_p(seed: int, counter: int, s_p: int, d: int) -> Array:
    row, start = np.zeros(s_p), 0
    for block in range(d):
        width = s_p // d + (block < s_p % d)
        column = start + int(uniform(seed, COLUMN, counter * d + block) * width)
        row[column] = (1.0 if uniform(seed, SIGN, counter * d + block) < 0.5 else -1.0) / np.sqrt(d)
        start += width
    return row


def choice(seed: int, budget: int, s_m: int) -> list[int]:
    order = list(range(budget))
    for i in range(s_m):
        j = i + int(uniform(seed, LANDMARK, i) * (budget - i))
        order[i], order[j] = order[j], order[i]
    return order[:s_m]


def pinv(A: Array, rank: int) -> Array:
    U, sigma, V = np.linalg.svd(A, full_matrices=False)
    kept = (sigma > 1e-10 * sigma[0]) & (np.arange(len(sigma)) < rank)
    return (V[kept].T / sigma[kept]) @ U[:, kept].T


def leading(M: Array, rank: int) -> tuple[Array, Array]:
    """Square roots of the leading eigenvalues, negative ones counted as 0, and their vectors with the largest entry > 0."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    values, vectors = values[::-1][:rank], vectors[:, ::-1][:, :rank]
    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.sqrt(np.maximum(values, 0)), vectors * np.sign(peaks)


def feature_map(S_p: Array, E: Array, L: Array, rank: int, bandwidth: float, printed: bool) -> Array:
    K, C, K_LL = (gaussian(A, B, bandwidth) for A, B in ((E, E), (E, L), (L, L)))
    pp, pm = S_p.T @ K @ S_p, S_p.T @ C
    if printed:
        roots, V = leading(pp, rank)
        return pinv(pm, len(L)) @ V * roots
    whole, tall = np.block([[pp, pm], [pm.T, K_LL]]), np.vstack([pm, K_LL])
    P = pinv(tall, rank)
    roots, V = leading(P @ whole @ P.T, rank)
    return V * roots


@slow_reference(
    "skegd",
    budget=12,
    rows=15,
    sketch_rows=9,
    landmarks=6,
    rank=4,
    sketch_blocks=2,
    refresh_every=3,
    ridge=0.01,
    kernel={"name": "gaussian", "bandwidth": 1.0},
)
def skegd(
    X: Array,
    Y: Array,
    *,
    budget: int,
    rows: int,
    sketch_rows: int,
    landmarks: int,
    rank: int,
    sketch_blocks: int,
    refresh_every: int,
    ridge: float,
    kernel: dict[str, Any],
    step_size: float | str = "mixed",
    map: str = "augmented",
    rebase: str = "projected",
    seed: int = 0,
) -> Outputs:
    """One target. Scores of the experts side by side; a number as the step size is one expert."""
    width = kernel["bandwidth"]
    rates = np.array(MIXED if step_size == "mixed" else (step_size,), float)
    first = 1.0 if step_size == "mixed" else float(rates[0])
    support, alpha = np.empty((0, X.shape[1])), np.empty(0)
    penalties, predictions, begun = np.zeros(len(rates)), [], False
    for t, (x, y) in enumerate(zip(X, Y[:, 0], strict=True), start=1):
        if not begun:
            f = of(support, x, width) @ alpha
            predictions.append(f)
            if len(support) < budget:
                alpha = alpha * (1 - first * ridge)
                if 1 - y * f > 0:
                    support, alpha = np.vstack([support, x]), np.append(alpha, first * y)
                continue
            E = support
            S_p = np.array([row_of_s_p(seed, i, sketch_rows, sketch_blocks) for i in range(budget)])
            L = support[choice(seed, budget, landmarks)]
            Q = feature_map(S_p, E, L, rank, width, map == "printed")
            on_landmarks = np.array([of(support, point, width) @ alpha for point in L])
            phi = Q.T @ of(L, x, width)
            w = np.tile(rebased(phi, f, Q, L, on_landmarks, width, rebase)[:, None], len(rates))
            begun = True
            continue
        phi = Q.T @ of(L, x, width)
        scores = phi @ w
        shares = np.exp(penalties.min() - penalties)
        predictions.append(scores @ shares / shares.sum())
        penalties = 0.99 * penalties + np.maximum(0, 1 - y * scores)
        if t % refresh_every == 1 % refresh_every:
            E, S_p = np.vstack([E, x]), np.vstack([S_p, row_of_s_p(seed, t, sketch_rows, sketch_blocks)])
            if rows and len(E) > rows:
                E, S_p = np.delete(E, budget, axis=0), np.delete(S_p, budget, axis=0)
            old, Q = Q, feature_map(S_p, E, L, rank, width, map == "printed")
            phi = Q.T @ of(L, x, width)
            values = kernel_matrix(L, width) @ old @ w
            w = np.stack([rebased(phi, scores[e], Q, L, values[:, e], width, rebase) for e in range(len(rates))], axis=1)
            scores = phi @ w
        lack = 1 - y * scores
        along = np.where(rates > 0, rates, np.minimum(10.0, lack / (phi @ phi)))
        w = (1 - rates * ridge) * w + np.outer(phi, np.where(lack > 0, along * y, 0.0))
    return {"prediction": np.array(predictions)[:, None]}


def kernel_matrix(L: Array, width: float) -> Array:
    return gaussian(L, L, width)


def of(support: Array, x: Array, width: float) -> Array:
    return gaussian(support, x[None], width)[:, 0]


def rebased(phi: Array, f: float, Q: Array, L: Array, on_landmarks: Array, width: float, rule: str) -> Array:
    """w for a function with the value f at x and these on the landmarks."""
    if rule == "printed":
        return f * phi / (phi @ phi)
    inner = Q.T @ kernel_matrix(L, width) @ Q
    return np.linalg.pinv(inner, rcond=1e-10, hermitian=True) @ Q.T @ on_landmarks


@slow_reference("nogd", budget=15, rank=6, step_size=0.3, ridge=0.01, kernel={"name": "gaussian", "bandwidth": 1.0})
def nogd(
    X: Array,
    Y: Array,
    *,
    budget: int,
    rank: int,
    step_size: float,
    ridge: float,
    kernel: dict[str, Any],
    loss: str = "hinge",
) -> Outputs:
    """One target."""
    width, keep = kernel["bandwidth"], 1 - step_size * ridge
    support, alpha, predictions = np.empty((0, X.shape[1])), np.empty(0), []
    w = V = roots = np.empty(0)
    for x, y in zip(X, Y[:, 0], strict=True):
        k = of(support, x, width)
        if len(support) == budget:
            phi = V.T @ k / roots
            predictions.append(phi @ w)
            w = keep * w + step_size * minus_slope(loss, predictions[-1], y) * phi
            continue
        predictions.append(k @ alpha)
        step, alpha = step_size * minus_slope(loss, predictions[-1], y), keep * alpha
        if step != 0:
            support, alpha = np.vstack([support, x]), np.append(alpha, step)
        if len(support) == budget:
            roots, V = leading(gaussian(support, support, width), rank)
            w = roots * (V.T @ alpha)
    return {"prediction": np.array(predictions)[:, None]}


@slow_reference("fogd", features=30, step_size=0.02, ridge=0.01, kernel={"name": "gaussian", "bandwidth": 1.5})
def fogd(
    X: Array, Y: Array, *, features: int, step_size: float, ridge: float, kernel: dict[str, Any], loss: str = "hinge"
) -> Outputs:
    """One target."""
    dim = X.shape[1]
    U = np.array([normal(0, 1, i) for i in range(features * dim)]).reshape(features, dim) / kernel["bandwidth"]
    w, predictions, Z = np.zeros(2 * features), [], np.hstack([np.cos(X @ U.T), np.sin(X @ U.T)])
    for z, y in zip(Z, Y[:, 0], strict=True):
        predictions.append(z @ w)
        w = (1 - step_size * ridge) * w + step_size * minus_slope(loss, predictions[-1], y) * z
    return {"prediction": np.array(predictions)[:, None], "features": Z}


def minus_slope(loss: str, f: float, y: float) -> float:
    if loss == "squared":
        return y - f
    if loss == "hinge":
        return y if 1 - y * f > 0 else 0.0
    return float(y / (1 + np.exp(y * f)))


@slow_reference("pros_n_kons", budget=12, ridge=0.5, curvature=0.2, kernel={"name": "gaussian", "bandwidth": 1.0})
def pros_n_kons(
    X: Array,
    Y: Array,
    *,
    budget: int,
    ridge: float,
    curvature: float,
    kernel: dict[str, Any],
    oversampling: float = 1.5,
    cap: float = 1.0,
) -> Outputs:
    """One target, hinge loss, whole matrices."""
    width, predictions, chances = kernel["bandwidth"], [], np.empty(0)
    D, w, A, whiten = np.empty((0, X.shape[1])), np.empty(0), np.empty((0, 0)), np.empty((0, 0))
    for t, (x, y) in enumerate(zip(X, Y[:, 0], strict=True)):
        k = of(D, x, width)
        S = np.diag(chances**-0.5)
        residual = 1 - k @ S @ np.linalg.solve(S @ gaussian(D, D, width) @ S + ridge * np.eye(len(D)), S @ k)
        p = min(1.0, oversampling * residual / (residual + ridge))
        if len(D) < budget and uniform(0, 1, t) < p:
            D, chances = np.vstack([D, x]), np.append(chances, p)
            roots, V = leading(gaussian(D, D, width), len(D))
            whiten, w, A, k = (V / roots).T, np.zeros(len(D)), ridge * np.eye(len(D)), of(D, x, width)
        phi = whiten @ k
        Aphi, f = np.linalg.solve(A, phi), float(np.clip(w @ phi, -cap, cap))
        w = w - (w @ phi - f) / (phi @ Aphi) * Aphi
        predictions.append(f)
        g = -minus_slope("hinge", predictions[-1], y) * phi
        A = A + curvature * np.outer(g, g)
        w = w - np.linalg.solve(A, g)
    return {"prediction": np.array(predictions)[:, None]}
