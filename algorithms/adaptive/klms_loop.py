"""The loop of kernel least mean squares, shared by `klms` and `qklms`, which differ in `quantum` alone."""

import numpy as np

from algorithms.adaptive.expansion import enter
from algorithms.common.compiled import compiled
from algorithms.common.kernels import fill_row_and_distances
from algorithms.common.linalg import LARGEST_STEP, distance2, largest, missing
from algorithms.common.losses import evaluate
from algorithms.common.protocol import LEARN_HEAD


@compiled
def klms_loop(work, slots, X, Y, learn, out, code, step_size, quantum, budget):
    """A sample within the squared distance `quantum` of a stored one only moves that one's weight (below 0: never)."""
    dictionaries, all_weights, seen, counts = work
    room = dictionaries.shape[1]
    k, gaps2, along = np.empty(room), np.empty(room), np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y, prediction = slots[n], X[n], Y[n], out.prediction[n]
        dictionary, weights, count = dictionaries[key], all_weights[key], counts[key, 0]
        if missing(x):
            continue

        # Predict with what earlier rows taught.
        fill_row_and_distances(code, dictionary, count, x, k, gaps2)
        within = evaluate(k, weights, count, prediction)
        if not missing(y):
            out.loss[n] = distance2(y, prediction)

        # The error, in the direction of x.
        if not learn[n] & LEARN_HEAD:
            continue
        seen[key] += 1
        if missing(y) or not within:
            continue
        for t in range(y.size):
            along[t] = step_size * (y[t] - prediction[t])
        if not largest(along) < LARGEST_STEP:
            continue

        # Quantise: the nearest stored sample absorbs it.
        if quantum >= 0.0 and count > 0:
            nearest = 0
            for i in range(1, count):
                if gaps2[i] < gaps2[nearest]:
                    nearest = i
            if gaps2[nearest] <= quantum:
                for t in range(y.size):
                    weights[nearest, t] += along[t]
                continue

        # Otherwise x is stored.
        after = enter(code, dictionary, weights, count, x, along, budget, k)
        out.admitted[n], out.evicted[n] = 1, after == count
        counts[key, 0], counts[key, 1] = after, after
