"""What fixed maps share: their features follow from the settings, and a key's state only counts."""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN_EXTRACTOR, Learner


@compiled
def waves_loop(work, slots, X, learn, out, frequencies, phases, amplitude):
    """Features amplitude cos(w'x + b) for each row w of `frequencies`; without phases cos(w'x), and behind them sin(w'x)."""
    _, seen, _ = work
    for n in range(len(X)):
        x, features = X[n], out.features[n]
        if missing(x):
            continue
        seen[slots[n]] += learn[n] & LEARN_EXTRACTOR
        count = len(frequencies)
        for i in range(count):
            w, angle = frequencies[i], 0.0
            for j in range(x.size):
                angle += w[j] * x[j]
            if phases.size:
                features[i] = amplitude * np.cos(angle + phases[i])
            else:
                features[i] = amplitude * np.cos(angle)
                features[count + i] = amplitude * np.sin(angle)
        if missing(features):  # x is so far out that w'x is NaN
            features[:] = np.nan


LARGEST_WIDTH = 20_000  # most features of a row


class MapState(NamedTuple):
    dim: int  # length of x
    seen: int  # rows so far; the map is a matter of settings


class FixedMap(Learner, abstract=True):
    """A base, not a learner."""

    __slots__ = ()

    def init(self, *, dim: int, targets: int, seed: int) -> MapState:
        return MapState(dim, 0)

    def dim(self, state: MapState) -> int:
        return state.dim
