"""Fourier online gradient descent (FOGD): linear gradient steps on random Fourier features.

Source: Lu, Hoi, Wang, Zhao, Liu (2016), Large scale online kernel learning, JMLR 17(47), Algorithm 2; a comparator of
the SkeGD paper.
Symbols: D = features, u_i = frequencies, eta = step_size, lambda = ridge, z(x) = [cos(u_1'x), .., sin(u_1'x), ..].
Cost of a row: O(D (dim + targets)).  State: 2 D targets + 2 numbers; the frequencies are drawn from the settings.
Readings: D frequencies from N(0, I / bandwidth^2) give 2 D features, which are not divided by sqrt(D): |z|^2 = D, so that
steps of squared losses are stable while step_size D < 2. w decays by 1 - eta lambda. Losses are max(0, 1 - y f),
(y - f)^2 / 2 (reported as `loss` without the 1/2) or log(1 + exp(-y f)). Draws are functions of (setting `seed`, counter),
the same for every key.
"""

import functools
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Kernel
from algorithms.common.linalg import missing
from algorithms.common.losses import LOSSES, LossLearner, check_steps, evaluate, steps
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Outputs, reject
from algorithms.common.randomness import normal
from algorithms.sketching.rounds import LARGEST_RATE, learn_step

FREQUENCY = 1  # purpose of the draws


class FogdState(NamedTuple):
    w: Array  # (2 features, targets)
    dim: int  # length of x; the frequencies are a matter of settings
    seen: int  # rows with a target so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Fogd(LossLearner):
    """Classification, or with loss = "squared" regression, on random Fourier features, the same for all keys.

    >>> learner = Fogd(features=50, kernel=Kernel(bandwidth=1.0))
    >>> X, Y = [[0.0], [3.0], [0.1], [3.1]], [[1.0], [-1.0], [1.0], [-1.0]]
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, Y)
    >>> out.features.shape, learner.predict(state, X).ravel() > 0
    ((4, 100), array([ True, False,  True, False]))
    """

    kernel: Kernel = field(default_factory=Kernel)  # gaussian
    features: Annotated[int, "1 to 10000"] = 100  # frequencies; a row has twice as many features
    step_size: float = 0.005  # above 0
    ridge: float = 0.0  # 0 or more, below 1 / step_size; the weights decay by step_size ridge a row
    loss: Literal["hinge", "squared", "logistic"] = "hinge"
    seed: int = 0  # of the draws

    def check(self) -> None:
        check_steps(self, below=LARGEST_RATE)
        if self.kernel.name != "gaussian":
            reject(self, "kernel", "gaussian", self.kernel.name)

    @property
    def width(self) -> int:
        return 2 * self.features

    def init(self, *, dim: int, targets: int, seed: int) -> FogdState:
        return FogdState(np.zeros((self.width, targets)), dim, 0)

    def dim(self, state: FogdState) -> int:
        return state.dim

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        W, rates = _drawn(self, X.shape[1]), np.array([float(self.step_size)])
        _loop(tuple(work), slots, X, Y, learn, out, W, LOSSES[self.loss], rates, float(self.ridge))


@functools.lru_cache(maxsize=16)
def _drawn(settings: Fogd, dim: int) -> Array:
    """Frequencies (features, dim); cached, as they depend on the settings alone."""
    W = np.array([[normal(settings.seed, FREQUENCY, i * dim + j) for j in range(dim)] for i in range(settings.features)])
    frequencies: Array = W.reshape(settings.features, dim) / (settings.kernel.bandwidth or dim**0.5)
    return frequencies


@compiled
def _loop(work, slots, X, Y, learn, out, frequencies, loss, rates, ridge):
    all_w, _, seen, _ = work
    along, half = np.empty(Y.shape[1]), len(frequencies)
    for n in range(len(X)):
        key, x, y, features, prediction = slots[n], X[n], Y[n], out.features[n], out.prediction[n]
        if missing(x):
            continue
        w = all_w[key]

        # Predict with what earlier rows taught.
        for i in range(half):
            angle = 0.0
            for j in range(x.size):
                angle += frequencies[i, j] * x[j]
            features[i], features[half + i] = np.cos(angle), np.sin(angle)
        within = not missing(features) and evaluate(features, w, features.size, prediction)
        if not within:  # too far out for a wave
            features[:] = np.nan
            continue
        if missing(y):
            continue
        out.loss[n] = steps(loss, prediction, y, 1.0, along)

        # Learn.
        if learn[n] & LEARN_HEAD:
            seen[key] += 1
            learn_step(loss, features, prediction, y, rates, ridge, w)
