"""Fixed feature maps written out monomial by monomial and wave by wave."""

import itertools
import math
from collections.abc import Iterable

import numpy as np

from algorithms.common.protocol import Array
from algorithms.common.randomness import normal, uniform


def taylor(X: Array, degree: int, bandwidth: float) -> set[tuple[float, ...]]:
    """Every feature as a column over the rows of X, rounded, in no order."""
    Z, columns = X / bandwidth, set()
    for powers in itertools.product(range(degree + 1), repeat=X.shape[1]):
        if sum(powers) <= degree:
            column = np.exp(-(Z**2).sum(axis=1) / 2) * np.prod(Z**powers, axis=1) * monomial_scale(powers)
            columns.add(tuple(np.round(column, 12)))
    return columns


def monomial_scale(powers: Iterable[int]) -> float:
    return float(math.prod(math.factorial(int(p)) for p in powers) ** -0.5)


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


def gauss_quadrature(X: Array, features: int, degree: int, bandwidth: float) -> Array:
    """Gaussian kernel, up to 12 coordinates: every node and every digit of Halton's sequence by itself."""
    hermite = [np.array([1.0]), np.array([1.0, 0.0])]  # coefficients, highest power first; He_(n+1) = x He_n - n He_(n-1)
    for n in range(1, degree):
        hermite.append(np.polysub(np.append(hermite[n], 0.0), n * hermite[n - 1]))
    nodes = np.sort(np.roots(hermite[degree]).real)
    shares = [math.factorial(degree - 1) / (degree * np.polyval(hermite[degree - 1], node) ** 2) for node in nodes]
    primes = [p for p in range(2, 42) if all(p % q for q in range(2, p))]
    waves = []
    for number in range(1, features // 2 + 1):
        w = []
        for base in primes[: X.shape[1]]:
            left, place, point = number, 1.0 / base, 0.0
            while left:
                left, digit = divmod(left, base)
                point, place = point + digit * place, place / base
            w.append(next((node for node, end in zip(nodes, np.cumsum(shares), strict=True) if point < end), nodes[-1]))
        waves.append(np.array(w) / bandwidth)
    angles = X @ np.array(waves).T
    return np.sqrt(2 / features) * np.hstack([np.cos(angles), np.sin(angles)])
