"""The rows of the SPEED family: they wait for the first map, then are predicted and learned, until one asks for a new map.

A new map costs a thousand times as much as a row, so the loop stops there and `family` goes on in NumPy.
"""

from typing import NamedTuple

import numpy as np

from algorithms.common import rls
from algorithms.common.compiled import compiled
from algorithms.common.kernels import fill_row_and_distances, value
from algorithms.common.linalg import LARGEST_STEP, distance2, distances2, largest, missing, put
from algorithms.common.protocol import LEARN_EXTRACTOR, LEARN_HEAD

HEADS = ("none", "lms", "rls", "exrls")
FAR = 1e150  # kernel values beyond are left alone: their squares would leave the floating-point range
NOVEL, LABELLED = 1, 2  # marks of a waiting row: it enters the dictionary; its target is known


class Rules(NamedTuple):
    """Settings as compiled code reads them."""

    rank: int
    first: int  # rows that wait for the first map
    grows: bool  # the map follows new samples
    budget: int  # 0 = unbounded
    stops: bool  # a full dictionary accepts no rows
    map_first: bool
    head: int  # index in HEADS
    step_size: float
    forgetting: float
    delta: float
    transition: float
    state_noise: float


@compiled
def rows_until(begin, fields, slots, X, Y, learn, out, code, rules):
    """Rows from `begin` on; gives the row of a key that needs its first map or a new one, or else the number of rows.

    fields: of `family.Fields`. Of the row that stops, the head learns nothing where the map comes first.
    """
    dictionaries, all_used, all_waiting, all_marks = fields.dictionary, fields.used, fields.waiting, fields.marks
    all_weights, all_P, seen, counts, maps = fields.weights, fields.P, fields.seen, fields.counts, fields.map
    rank, targets, room = rules.rank, all_weights.shape[2], max(dictionaries.shape[1], all_waiting.shape[1])
    k, gaps2, z, prediction, along = np.empty(room), np.empty(room), np.empty(rank), np.empty(targets), np.empty(targets)
    buffer, u, gain, no_bias = np.empty(rank), np.empty(rank), np.empty(rank), np.zeros(targets)
    for n in range(begin, len(X)):
        key, x, y = slots[n], X[n], Y[n]
        kxx = value(code, x, x)
        if missing(x) or not kxx < FAR:
            continue
        labelled = learn[n] & LEARN_HEAD != 0 and rules.head > 0 and not missing(y)
        m, novelty, least, nearest = counts[key, 0], fields.novelty[key], np.inf, 0

        # The first rows wait for the map; those that repeat none before them will be the dictionary.
        if m == 0:
            if not learn[n] & LEARN_EXTRACTOR:
                continue
            seen[key] += 1
            waiting, marks, count, kept = all_waiting[key], all_marks[key], counts[key, 3], 0
            distances2(waiting, count, x, gaps2)
            for i in range(count):
                if marks[i] & NOVEL:
                    kept += 1
                    least = min(least, gaps2[i])
            full = rules.budget > 0 and kept >= rules.budget
            novel = kept == 0 or (least > 0.0 and least >= novelty and not full)
            put(waiting[count], x)
            for t in range(targets):
                fields.wanted[key, count, t] = y[t] if labelled else 0.0
            marks[count] = NOVEL * novel + LABELLED * labelled
            out.admitted[n] = novel
            counts[key, 3:6] = count + 1
            if count + 1 == rules.first:
                return n
            continue

        # z = Psi k (19), and the head's prediction.
        rows, weights = maps[key], all_weights[key]
        fill_row_and_distances(code, dictionaries[key], m, x, k, gaps2)
        length2 = 0.0
        z[:rank] = 0.0
        for i in range(m):
            weight, row = k[i], rows[i]
            for c in range(rank):
                z[c] += weight * row[c]
        for c in range(rank):
            length2 += z[c] * z[c]
        if not np.isfinite(length2):
            continue
        put(out.features[n], z)
        out.ls_error[n] = max(kxx - length2, 0.0)
        prediction[:targets] = 0.0
        for c in range(rank):
            for t in range(targets):
                prediction[t] += z[c] * weights[c, t]
        if rules.head > 0:
            put(out.prediction[n], prediction)
            if not missing(y):
                out.loss[n] = distance2(y, prediction)

        # Alg. 5: a sample far enough from those stored asks for a new map.
        novel = False
        if learn[n] & LEARN_EXTRACTOR:
            seen[key] += 1
            if rules.grows:
                for i in range(m):
                    if gaps2[i] < least:
                        nearest, least = i, gaps2[i]
                all_used[key, nearest] = seen[key]
                full = rules.budget > 0 and m >= rules.budget
                novel = least > 0.0 and least >= novelty and not (full and rules.stops)

        # Alg. 1 (lms), 2 (rls) or 3 (exrls, A applied once); a step out of range is not taken.
        if labelled and not (novel and rules.map_first) and not missing(prediction):
            if rules.head == 1:
                for t in range(targets):
                    along[t] = rules.step_size * (y[t] - prediction[t])
                if largest(along) * max(largest(z), 1.0) < LARGEST_STEP:
                    for c in range(rank):
                        for t in range(targets):
                            weights[c, t] += z[c] * along[t]
            else:
                P, forgetting, delta = all_P[key], rules.forgetting, rules.delta
                done = rls.learn(weights, no_bias, P, z, y, prediction, buffer, u, gain, along, forgetting, delta)
                if done and rules.head == 3:
                    rls.move_on(weights, no_bias, P, rules.transition, forgetting * rules.state_noise, delta)
        if novel:
            return n
    return len(X)
