"""SkeGD, time of a row: without and with an update of the map, beside plain loops of the same method for one key.

A row without an update is compared with a compiled loop written for one key with one target and nothing else; an update with
the eigenvectors of one matrix of the sketch's size, which the printed map needs twice. Both take turns, the least of several
rounds counts. The targets are those of a machine that has nothing else to do.
"""

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from algorithms.common.eigen import symmetric
from algorithms.common.protocol import Array
from papers.common import line, options, verdict
from papers.sketching import made

DIM, ROWS, ROUNDS, SIGMA = 24, 20_000, 7, 5.0
MOST, MOST_UPDATE = 3.0, 1000.0  # us


def stream(rows: int) -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, DIM))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * random.standard_normal(rows)
    return X, np.where(signal >= 0, 1.0, -1.0)


@numba.njit  # type: ignore[misc]
def plain(X, y, L, Q, W, rates, gamma, said):  # type: ignore[no-untyped-def]
    """Scores and steps of five experts on one map, whose weights (5, rank) are W."""
    k, phi, losses, scores = np.empty(len(L)), np.empty(Q.shape[1]), np.zeros(len(W)), np.empty(len(W))
    for n in range(len(X)):
        for j in range(len(L)):
            total = 0.0
            for i in range(X.shape[1]):
                total += (L[j, i] - X[n, i]) ** 2
            k[j] = np.exp(-gamma * total)
        for c in range(len(phi)):
            phi[c] = 0.0
        for j in range(len(L)):
            for c in range(len(phi)):
                phi[c] += k[j] * Q[j, c]
        length2, weight, said[n], least = 0.0, 0.0, 0.0, losses.min()
        for c in range(len(phi)):
            length2 += phi[c] * phi[c]
        for e in range(len(W)):
            scores[e] = 0.0
            for c in range(len(phi)):
                scores[e] += W[e, c] * phi[c]
            share = np.exp(least - losses[e])
            said[n] += share * scores[e]
            weight += share
        said[n] /= weight
        for e in range(len(W)):
            lack = max(0.0, 1.0 - y[n] * scores[e])
            losses[e] = 0.99 * losses[e] + lack
            if lack > 0.0:
                step = y[n] * (rates[e] if rates[e] > 0.0 else min(10.0, lack / length2))
                for c in range(len(phi)):
                    W[e, c] += step * phi[c]


def least(rounds: int, *runs: Callable[[], None]) -> list[float]:
    """Least seconds of the processor of each, in turns."""
    best = [np.inf] * len(runs)
    for _ in range(rounds):
        for place, run in enumerate(runs):
            begin = time.process_time()
            run()
            best[place] = min(best[place], time.process_time() - begin)
    return best


def ours(learner: Any, state: Any, X: Array, y: Array) -> Callable[[], None]:
    slots, out, Y = np.zeros(len(X), np.int64), learner.outputs(len(X), DIM, 1), y[:, None].copy()

    def run() -> None:
        work = learner.workspace(state)
        learner.load(work, 0, state)
        learner.advance(work, slots, X, Y, out)

    return run


def measured(rows: int, rounds: int) -> tuple[float, float, float, float, float]:
    """Microseconds: our row, the plain one, our update, one eigendecomposition; and how far apart the scores are."""
    X, y = stream(1000 + rows)
    still, moving = (made("skegd", {"refresh_every": each}, SIGMA) for each in (10**9, 50))
    begun, _ = still.run(still.init(dim=DIM, targets=1, seed=0), X[:1000], y[:1000, None])
    later, wanted = X[1000:].copy(), y[1000:].copy()
    W, rates, said = np.empty((5, begun.map.shape[1])), np.array([0.01, 0.1, 0.5, 1.0, 0.0]), np.empty(rows)
    losses = begun.penalties

    def one_key() -> None:
        W[:] = begun.experts.T
        plain(later, wanted, begun.landmarks, begun.map, W, rates, 1 / (2 * SIGMA**2), said)

    whole = np.random.default_rng(0).random((125, 125))
    one_key()
    apart = 0.0
    if not losses.any():
        _, out = still.run(begun, later[:100], wanted[:100, None])
        apart = float(np.abs(out.prediction[:, 0] - said[:100]).max())
    full, _ = moving.run(moving.init(dim=DIM, targets=1, seed=0), X, y[:, None])
    symmetric(whole, 125)
    times = least(
        rounds,
        ours(still, begun, later, wanted),
        one_key,
        ours(moving, full, later, wanted),
        lambda: [symmetric(whole, 125) for _ in range(20)] and None,
    )
    updates = rows // 50
    return times[0] / rows * 1e6, times[1] / rows * 1e6, (times[2] - times[0]) / updates * 1e6, times[3] / 20 * 1e6, apart


def main(arguments: list[str] | None = None) -> int:
    given = options("skegd_speed", __doc__, arguments, quick="2000 rows, two rounds")
    mine, one_key, update, eigen, _ = measured(*((2000, 2) if given.quick else (ROWS, ROUNDS)))
    missed = line(
        "a row without an update", f"{mine:.2f} us, {mine / one_key:.2f} x plain", f"target {MOST:g} us", mine <= MOST
    )
    told = f"{update:.0f} us, {update / eigen:.2f} x eigenvectors"
    missed += line("an update of the map, full sketch", told, f"target {MOST_UPDATE:g} us", update <= MOST_UPDATE)
    verdict("the targets of speed", missed)
    return 0
