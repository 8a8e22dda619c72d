"""Taylor features: the gaussian kernel's power series, cut off at a degree.

Source: Cotter, Keshet, Srebro (2011), Explicit approximations of the Gaussian kernel, Section 3; the SPEED paper, Sec. V-B.
Symbols: D = width, g = degree, sigma = bandwidth, alpha = powers of a monomial.
Cost of a row: O(D).  State: 2 numbers.
Readings: exp(-|x|^2 / (2 sigma^2)) prod_i (x_i / sigma)^alpha_i / sqrt(alpha_i!) for every alpha of total degree up to g,
D = (d + g)! / (d! g!) of them (330 for d 7, g 4), by degree, then in order of the last factor. z'z' falls short of the
kernel by at most ((|x| |x'|) / sigma^2)^(g+1) / (g+1)!: inputs should lie within a few bandwidths of 0.
"""

import functools
import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Kernel
from algorithms.common.linalg import missing, norm2
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs, reject
from algorithms.maps.fixed_map import LARGEST_WIDTH, FixedMap, MapState


@dataclass(frozen=True, slots=True, kw_only=True)
class Taylor(FixedMap):
    """Features: the gaussian kernel's Taylor series up to `degree`, exact near 0; their number grows fast with dim.

    >>> learner = Taylor(degree=4, kernel=Kernel(bandwidth=1.0))
    >>> a, b = learner.transform(learner.init(dim=1, targets=0, seed=0), [[0.5], [-0.5]])
    >>> len(a), f"{a @ b:.4f} {np.exp(-0.5):.4f}"
    (5, '0.6065 0.6065')
    """

    kernel: Kernel = field(default_factory=Kernel)  # gaussian
    degree: Annotated[int, "1 to 20"] = 4  # highest degree of a monomial

    def check(self) -> None:
        if self.kernel.name != "gaussian":
            reject(self, "kernel", "gaussian", self.kernel.name)

    def width_for(self, dim: int) -> int:
        return math.comb(dim + self.degree, self.degree)

    def init(self, *, dim: int, targets: int, seed: int) -> MapState:
        if self.width_for(dim) > LARGEST_WIDTH:
            most = f"lower for x of length {dim}: {self.width_for(dim)} features, at most {LARGEST_WIDTH}"
            reject(self, "degree", most, self.degree)
        return FixedMap.init(self, dim=dim, targets=targets, seed=seed)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        dim = X.shape[1]
        parents, factors, scales = _monomials(dim, self.degree)
        bandwidth = float(self.kernel.bandwidth or dim**0.5)
        _loop(tuple(work), slots, X, learn, out, parents, factors, scales, bandwidth)


@functools.lru_cache(maxsize=16)
def _monomials(dim: int, degree: int) -> tuple[Array, Array, Array]:
    """Of every monomial but the first, 1: the one it is made from, the coordinate it takes, 1 / sqrt(its new power)."""
    made: list[tuple[int, int, float]] = []
    last, power = [0], [0]  # coordinate and power of each monomial's last factor
    start = 0
    for _ in range(degree):
        end = len(last)
        for parent in range(start, end):
            for coordinate in range(last[parent], dim):
                again = power[parent] + 1 if coordinate == last[parent] else 1
                made.append((parent, coordinate, again**-0.5))
                last.append(coordinate)
                power.append(again)
        start = end
    columns = tuple(zip(*made, strict=True))
    return np.array(columns[0]), np.array(columns[1]), np.array(columns[2])


@compiled
def _loop(work, slots, X, learn, out, parents, factors, scales, bandwidth):
    _, seen, _ = work
    scaled = np.empty(X.shape[1])
    for n in range(len(X)):
        x, features = X[n], out.features[n]
        if missing(x):
            continue
        seen[slots[n]] += learn[n] & LEARN_EXTRACTOR
        for i in range(x.size):
            scaled[i] = x[i] / bandwidth
        features[0] = np.exp(-0.5 * norm2(scaled))
        for i in range(parents.size):
            # Far out the first is 0, and so are all; what the powers are there does not matter.
            features[i + 1] = features[parents[i]] * scaled[factors[i]] * scales[i] if features[0] > 0.0 else 0.0
