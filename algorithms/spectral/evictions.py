"""Which samples leave a full dictionary when one is admitted."""

import numpy as np

from algorithms.common.protocol import Array

EVICTIONS = ("lru", "oldest", "close_pair", "widen", "stop")
WIDER = 1.25  # factor of the novelty threshold
LEFT = 0.8  # share of the budget that widening leaves
SMALLEST = 1e-300  # threshold that widening begins with at least
UNLIKE = 1e300  # larger squared distances do not measure likeness


def leave(evict: str, dictionary: Array, used: Array, budget: int, novelty: float) -> tuple[Array, float]:
    """Mask of the samples that stay, of budget + 1 with the newcomer last; and the novelty threshold."""
    stays = np.ones(len(dictionary), bool)
    if evict == "widen":
        return _thinned(distances2(dictionary), max(1, int(LEFT * budget)), novelty)
    if evict == "lru":
        leaver = int(np.argmin(used[:-1]))
    elif evict == "oldest":
        leaver = 0
    else:
        gaps2 = distances2(dictionary)
        leaver = int(np.argmin(np.where(np.tri(len(gaps2), dtype=bool), np.inf, gaps2))) // len(gaps2)
    stays[leaver] = False
    return stays, novelty


def distances2(rows: Array) -> Array:
    """Squared distances of all pairs, from differences."""
    total = np.zeros((len(rows), len(rows)))
    with np.errstate(over="ignore"):
        for column in rows.T:
            total += np.square(column[:, None] - column)
    return total


def _thinned(gaps2: Array, most: int, novelty: float) -> tuple[Array, float]:
    """Widen the threshold and drop, in stored order, samples too near to an earlier one, until `most` are left."""
    stays = np.ones(len(gaps2), bool)
    pairs = np.tri(len(gaps2), k=-1, dtype=bool)
    while stays.sum() > most:
        between = gaps2[pairs & stays & stays[:, None]]
        closest = float(between.min())  # widening up to the closest pair drops none
        if not closest < UNLIKE:
            break
        if novelty == 0:
            novelty = float(min(between[between > 0].min(initial=1.0), 1.0))
        novelty = max(WIDER * novelty, SMALLEST)
        while novelty <= closest:
            novelty *= WIDER
        for i in np.flatnonzero(stays).tolist():
            stays[i] = not (gaps2[i, :i][stays[:i]] < novelty).any()
    held = np.flatnonzero(stays)
    stays[held[: max(0, len(held) - most)]] = False  # nothing is like anything: the oldest leave
    return stays, novelty
