"""The synthetic streams of the OK-FEB paper, section VII: spheres with noise, and a spheroid that turns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BANDWIDTH = 1.0  # gamma = 2


def spheroid(rng: np.random.Generator, axes: tuple[float, float, float], n: int) -> Array:
    """n points, uniform in area, on the ellipsoid with these half axes: sphere points kept by their area factor."""
    a, b, c = axes
    factors = np.array([b * c, a * c, a * b])
    kept = np.empty((0, 3))
    while len(kept) < n:
        u = rng.normal(size=(4 * n, 3))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        area = np.linalg.norm(u * factors, axis=1)
        kept = np.vstack([kept, u[rng.random(len(u)) < area / factors.max()] * axes])
    return kept[:n]


def turning(seed: int, n: int = 1000) -> Array:
    """VII-B: n points of (x1/3)^2 + x2^2 + x3^2 = 1, then n of x1^2 + (x2/3)^2 + x3^2 = 1."""
    rng = np.random.default_rng(seed)
    return np.vstack([spheroid(rng, (3.0, 1.0, 1.0), n), spheroid(rng, (1.0, 3.0, 1.0), n)])


def two_spheres(seed: int, n: int = 5000, sigma2: float = 0.01) -> Array:
    """VII-A: points of the spheres of radius 1 and 2, equally likely, with normal noise."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    return u * rng.integers(1, 3, size=(n, 1)) + rng.normal(scale=np.sqrt(sigma2), size=(n, 3))
