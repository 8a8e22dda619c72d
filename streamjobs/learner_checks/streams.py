"""Streams for the checks, by kind of learner, that every learner of the kind should learn; a case has the hostile ones."""

import numpy as np

from algorithms.common.protocol import Array


def easy(kind: str, n: int, dim: int, targets: int, labels: str, seed: int) -> tuple[Array, Array]:
    """X (n, dim) and Y (n, targets). Samples lie near a closed curve, or are a watched value that shifts halfway."""
    random = np.random.default_rng(seed)
    if kind == "drift":
        return watched(n, n // 2, seed, dim), np.zeros((n, 0))
    X = curve(n, dim, random)
    if kind == "features":
        return X, np.zeros((n, 0))
    if kind == "regression":
        return X, X @ _directions(dim, targets) + 0.02 * random.standard_normal((n, targets))
    X += 0.0  # classes are the sides of planes through the origin, samples close to a plane are moved off it
    scores = X @ _directions(dim, targets)
    if targets == 1:
        sides = np.where(scores >= 0, 1.0, -1.0)
        return X + 0.3 * sides * _directions(dim, 1).T, sides
    best = scores.argmax(axis=1)
    X = X + 0.3 * _directions(dim, targets).T[best]
    return X, np.where(np.arange(targets) == best[:, None], 1.0, 0.0 if labels == "onehot" else -1.0)


def curve(n: int, dim: int, random: np.random.Generator) -> Array:
    """Samples on a closed curve, every coordinate about unit size, with a little noise."""
    angle = random.uniform(0, 2 * np.pi, (n, 1))
    waves, phases = 1 + np.arange(dim) // 2, np.arange(dim) * np.pi / 2
    samples: Array = np.sqrt(2.0) * np.cos(waves * angle + phases) + 0.02 * random.standard_normal((n, dim))
    return samples


def places(n: int, dim: int, second: bool, seed: int) -> Array:
    """Samples at two places that a few features describe well; the second two are far from the first two."""
    random = np.random.default_rng(seed)
    center = 1.5 * _directions(dim, 2)[:, int(second)]
    return np.where(random.random((n, 1)) < 0.5, center, -center) + 0.05 * random.standard_normal((n, dim))


def watched(n: int, shift_at: int, seed: int, dim: int = 1) -> Array:
    """An LS error (n, 1): about .1, and from row `shift_at` on about .6; or as many such columns."""
    random = np.random.default_rng(seed)
    values = 0.1 + 0.03 * np.abs(random.standard_normal((n, dim)))
    values[shift_at:] += 0.5
    return values


def other_targets(kind: str, Y: Array, seed: int) -> Array:
    """Targets that differ from Y in every row."""
    if kind == "classification":
        return -Y if Y.shape[1] == 1 else np.roll(Y, 1, axis=1)
    return Y + 1.0 + np.random.default_rng(seed).random(Y.shape)


def _directions(dim: int, targets: int) -> Array:
    """Orthogonal unit columns (as far as there are dimensions), the same in every stream."""
    W = np.random.default_rng(7).standard_normal((dim, targets))
    orthogonal = np.linalg.qr(W)[0]
    return orthogonal if targets <= dim else W / np.linalg.norm(W, axis=0)
