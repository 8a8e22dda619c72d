"""Random Fourier features (RFF): waves along random directions. Their products approximate the kernel.

Source: Rahimi, Recht (2007), Random features for large-scale kernel machines, Alg. 1; the SPEED paper, Section V-B (RFF1:
pair, RFF2: phase).
Symbols: D = features, w = frequencies, b = phases.
Cost of a row: O(D d).  State: 2 numbers; the frequencies are drawn from the settings.
Readings: gaussian: w ~ N(0, I / bandwidth^2); laplacian: such a w divided by another standard normal number. phase:
sqrt(2 / D) cos(w'x + b), b uniform in [0, 2 pi); pair: sqrt(2 / D) [cos(w'x), .., sin(w'x), ..] with D / 2 frequencies. The
draws are functions of (seed, counter) and the same for every key. It has no LS error: the features span no part of
the kernel's space, they only approximate its products, to about 1 / sqrt(D).
"""

import functools
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Array, Basis, Outputs, reject, require
from algorithms.common.randomness import normal, uniform
from algorithms.maps.fixed_map import LARGEST_WIDTH, FixedMap, waves_loop

FREQUENCY, PHASE, SPREAD = 1, 2, 3  # purposes of the draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Rff(FixedMap):
    """Features with a dot product close to the gaussian or laplacian kernel, for any head.

    >>> learner = Rff(features=2000, kernel=Kernel(bandwidth=1.0))
    >>> state = learner.init(dim=1, targets=0, seed=0)
    >>> a, b = learner.transform(state, [[0.0], [1.0]])
    >>> abs(a @ b - np.exp(-0.5)) < 0.05
    np.True_
    """

    kernel: Kernel = field(default_factory=Kernel)  # gaussian or laplacian
    features: int = 330  # features of a row, 1 or more; even for pair
    variant: Literal["phase", "pair"] = "pair"  # cosines with random phases, or cosines and sines
    seed: int = 0  # of the draws

    def check(self) -> None:
        require(self, "features", 1 <= self.features <= LARGEST_WIDTH, f"1 to {LARGEST_WIDTH}")
        require(self, "features", self.variant == "phase" or self.features % 2 == 0, "even for pair")
        if self.kernel.name not in ("gaussian", "laplacian"):
            reject(self, "kernel", "gaussian or laplacian", self.kernel.name)

    @property
    def width(self) -> int:
        return self.features

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        frequencies, phases = _drawn(self, X.shape[1])
        waves_loop(tuple(work), slots, X, learn, out, frequencies, phases, (2.0 / self.features) ** 0.5)


@functools.lru_cache(maxsize=16)
def _drawn(settings: Rff, dim: int) -> tuple[Array, Array]:
    """Frequencies (count, dim) and phases, none for pair; cached, as they depend on the settings alone."""
    count = settings.features // 2 if settings.variant == "pair" else settings.features
    W = np.array([[normal(settings.seed, FREQUENCY, i * dim + j) for j in range(dim)] for i in range(count)])
    W = W.reshape(count, dim) / (settings.kernel.bandwidth or dim**0.5)
    if settings.kernel.name == "laplacian":
        W = W / np.array([[normal(settings.seed, SPREAD, i)] for i in range(count)])
    if settings.variant == "pair":
        return W, np.empty(0)
    return W, np.array([2 * np.pi * uniform(settings.seed, PHASE, i) for i in range(count)])
