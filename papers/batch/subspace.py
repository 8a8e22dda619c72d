"""Offline feature extraction: the batch solver of the OK-FEB paper and the methods it is compared with, as functions.

Source: BKFE is Alg. 1 of Sheikholeslami, Berberidis, Giannakis. `kpca`: Schoelkopf, Smola, Mueller (1999), without
centring. `nystrom`: Williams, Seeger (2001); on k-means centers: Zhang, Tsang, Kwok (2008), "improved Nystroem"; on
landmarks drawn by leverage and with a spectral shift: Wang, Zhang, Qian, Zhang (2014), "SS-Nystroem". `meka`: Si, Hsieh,
Dhillon (2014). All work on the rows X (n, dim) at once, are deterministic in `seed`, and give a `Map` or features (n, r)
with inner products that approximate the kernel.
Departs from the sources: leverage scores come from the subspace of a uniform sample; MEKA's blocks between clusters use
all rows of both instead of a sample.
"""

from typing import NamedTuple

import numpy as np

from algorithms.common.eigen import CUT, leading, symmetric
from algorithms.common.kernels import Kernel, gram
from algorithms.common.protocol import Array
from algorithms.common.randomness import normal, uniform

LLOYD_ROUNDS = 20


class Map(NamedTuple):
    """Features of a row x: (kappa(points, x)' weights), (rank,). They lie in the span of the points."""

    points: Array  # (m, dim)
    weights: Array  # (m, rank)

    def features(self, kernel: Kernel, X: Array) -> Array:
        """(n, rank)"""
        return gram(kernel, X, self.points) @ self.weights


def whitened(K: Array, rank: int) -> Array:
    """V Lambda^(-1/2) (n, rank) of the leading eigenpairs; columns of eigenvalues that are 0 are 0."""
    values, vectors = leading(K, rank)
    columns = np.zeros((len(K), rank))
    columns[:, : len(values)] = vectors / np.sqrt(values)
    return columns


class Bkfe(NamedTuple):
    """What Alg. 1 gives: L = Phi A."""

    factor: Array  # (n, rank) A
    coefficients: Array  # (n, rank) q of every row


def bkfe(kernel: Kernel, X: Array, rank: int, *, ridge: float = 1e-3, iterations: int = 50, seed: int = 0) -> Bkfe:
    """Alg. 1, alternating (7) and (9) from a random factor.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> learned = bkfe(Kernel(bandwidth=2.0), X, 5)
    >>> learned.factor.shape, bool(ls_fit(gram(Kernel(bandwidth=2.0), X, X), learned.factor) < 0.1)
    ((60, 5), True)
    """
    K = gram(kernel, X, X)
    A = _normal(len(K), rank, seed) / np.sqrt(len(K))
    Q = np.empty((len(K), rank))
    for _ in range(iterations):
        KA = K @ A
        Q = np.linalg.solve(A.T @ KA + ridge * np.eye(rank), KA.T).T
        A = np.linalg.solve(Q.T @ Q + ridge * np.eye(rank), Q.T).T
    return Bkfe(A, Q)


def ls_fit(K: Array, factor: Array, ridge: float = 1e-3) -> float:
    """Mean of |phi(x) - L q(x)|^2 over the rows of K, L = Phi A with A = factor, q of (7)."""
    KA = K @ factor
    inner = factor.T @ KA
    Q = np.linalg.solve(inner + ridge * np.eye(len(inner)), KA.T)
    return float(np.mean(np.diag(K) - 2 * (KA * Q.T).sum(axis=1) + (Q * (inner @ Q)).sum(axis=0)))


def mismatch(kernel: Kernel, X: Array, features: Array) -> float:
    """Kernel mismatch of rows with these features: |K - U U'|_F / n."""
    return float(np.linalg.norm(gram(kernel, X, X) - features @ features.T) / len(X))


def kpca(kernel: Kernel, X: Array, rank: int) -> Map:
    """Kernel principal components, not centred: the best approximation of this rank of the whole kernel matrix.

    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> U = kpca(Kernel(bandwidth=1.0), X, 40).features(Kernel(bandwidth=1.0), X)
    >>> bool(np.allclose(U @ U.T, gram(Kernel(bandwidth=1.0), X, X), atol=1e-6))
    True
    """
    return Map(X, whitened(gram(kernel, X, X), rank))


def nystrom(kernel: Kernel, X: Array, rank: int, *, landmarks: int, choose: str = "uniform", seed: int = 0) -> Map:
    """Nystroem map on landmarks chosen "uniform" (rows of X), by "kmeans" (improved Nystroem), or by "leverage".

    The kernel matrix is stood for by C W_r^+ C' (C = K(X, landmarks), W_r of rank `rank`).
    """
    chosen = _landmarks(kernel, X, rank, landmarks, choose, seed)
    return Map(chosen, whitened(gram(kernel, chosen, chosen), rank))


class Shifted(NamedTuple):
    """A kernel matrix stood for by U U' + shift I."""

    features: Array  # (n, rank) U
    shift: float


def ss_nystrom(kernel: Kernel, X: Array, rank: int, *, landmarks: int, choose: str = "leverage", seed: int = 0) -> Shifted:
    """Spectral shifting: K - shift I is approximated by C J C', J = C^+ (K - shift I) C^+' cut to rank `rank`.

    The shift is the mean of what the span of C leaves of K's trace. Needs the whole kernel matrix, like the source.
    """
    K = gram(kernel, X, X)
    C = gram(kernel, X, _landmarks(kernel, X, rank, landmarks, choose, seed))
    values, vectors = symmetric(C.T @ C, C.shape[1])
    kept = values > CUT * values[0]
    basis = (C @ vectors[:, kept]) / np.sqrt(values[kept])  # orthonormal
    inner = basis.T @ K @ basis
    left = len(K) - basis.shape[1]
    shift = (np.trace(K) - np.trace(inner)) / left if left else 0.0
    values, vectors = symmetric(inner - shift * np.eye(len(inner)), len(inner))
    top = np.maximum(values[:rank], 0.0)
    return Shifted(basis @ (vectors[:, :rank] * np.sqrt(top)), float(shift))


def meka(kernel: Kernel, X: Array, rank: int, *, clusters: int, seed: int = 0) -> tuple[Array, Array]:
    """Memory-efficient kernel approximation: a basis per cluster of rows, and a matrix of links between all bases.

    Gives Q (n, total) with a cluster's rows zero outside its own columns, and S (total, total): the kernel matrix is
    stood for by Q S Q', total = sum of min(rank, size of the cluster).
    """
    centers = kmeans(X, clusters, seed)
    member = nearest(X, centers)
    parts = [np.flatnonzero(member == c) for c in range(len(centers))]
    parts = [part for part in parts if len(part)]
    widths = [min(rank, len(part)) for part in parts]
    ends = np.cumsum([0, *widths])
    Q = np.zeros((len(X), ends[-1]))
    for part, begin, end in zip(parts, ends, ends[1:], strict=False):
        Q[part, begin:end] = symmetric(gram(kernel, X[part], X[part]), len(part))[1][:, : end - begin]
    S = np.zeros((ends[-1], ends[-1]))
    for one, a, b in zip(parts, ends, ends[1:], strict=False):
        for two, c, d in zip(parts, ends, ends[1:], strict=False):
            S[a:b, c:d] = Q[one, a:b].T @ gram(kernel, X[one], X[two]) @ Q[two, c:d]
    return Q, S


def kmeans(X: Array, clusters: int, seed: int = 0) -> Array:
    """Centers (<= clusters, dim) by Lloyd's rounds from distinct rows drawn at random; an emptied cluster is dropped."""
    centers = X[_drawn(np.ones(len(X)), min(clusters, len(X)), seed)].astype(float)
    for _ in range(LLOYD_ROUNDS):
        member = nearest(X, centers)
        moved = np.array([X[member == c].mean(axis=0) for c in range(len(centers)) if (member == c).any()])
        if moved.shape == centers.shape and np.array_equal(moved, centers):
            break
        centers = moved
    return centers


def nearest(X: Array, centers: Array) -> Array:
    """Index of the nearest center of every row; of equals the first."""
    return np.array([((centers - x) ** 2).sum(axis=1).argmin() for x in X])


def _landmarks(kernel: Kernel, X: Array, rank: int, landmarks: int, choose: str, seed: int) -> Array:
    if choose == "uniform":
        return X[_drawn(np.ones(len(X)), landmarks, seed)]
    if choose == "kmeans":
        return kmeans(X, landmarks, seed)
    if choose == "leverage":
        pilot = X[_drawn(np.ones(len(X)), min(len(X), 10 * landmarks), seed + 1)]
        U = Map(pilot, whitened(gram(kernel, pilot, pilot), rank)).features(kernel, X)
        scores = (U * np.linalg.solve(U.T @ U + CUT * np.trace(U.T @ U) * np.eye(U.shape[1]), U.T).T).sum(axis=1)
        return X[_drawn(np.maximum(scores, 0.0), landmarks, seed)]
    raise ValueError(f"nystrom: choose must be 'uniform', 'kmeans' or 'leverage'; got {choose!r}.")


def _drawn(chances: Array, count: int, seed: int) -> Array:
    """Distinct indices, drawn with these chances: the largest of u^(1/chance) (Efraimidis, Spirakis), in order."""
    draws = np.array([uniform(seed, 1, i) for i in range(len(chances))])
    keys = np.where(chances > 0, np.log(draws + 1e-300) / np.maximum(chances, 1e-300), -np.inf)
    return np.sort(np.argsort(-keys, kind="stable")[:count])


def _normal(rows: int, columns: int, seed: int) -> Array:
    return np.array([normal(seed, 2, i) for i in range(rows * columns)]).reshape(rows, columns)
