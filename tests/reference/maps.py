"""Fixed feature maps written out monomial by monomial and wave by wave."""

import itertools
import math

import numpy as np

from algorithms.common.protocol import Array
from algorithms.common.randomness import normal, uniform


def taylor(X: Array, degree: int, bandwidth: float) -> set[tuple[float, ...]]:
    """Every feature as a column over the rows of X, rounded, in no order."""
    Z, columns = X / bandwidth, set()
    for powers in itertools.product(range(degree + 1), repeat=X.shape[1]):
        if sum(powers) <= degree:
            scale = math.prod(math.factorial(p) for p in powers) ** -0.5
            column = np.exp(-(Z**2).sum(axis=1) / 2) * np.prod(Z**powers, axis=1) * scale
            columns.add(tuple(np.round(column, 12)))
    return columns


def rff(X: Array, features: int, variant: str, seed: int, bandwidth: float) -> Array:
    """Gaussian kernel; the draws are the product's, numbered by wave and coordinate."""
    columns = []
    dim = X.shape[1]
    for i in range(features if variant == "phase" else features // 2):
        w = np.array([normal(seed, 1, i * dim + j) for j in range(dim)]) / bandwidth
        if variant == "phase":
            columns.append(np.sqrt(2 / features) * np.cos(X @ w + 2 * np.pi * uniform(seed, 2, i)))
        else:
            columns.append(np.sqrt(2 / features) * np.exp(1j * (X @ w)))
    waves = np.array(columns).T
    return waves if variant == "phase" else np.hstack([waves.real, waves.imag])
