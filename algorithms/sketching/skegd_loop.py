"""The loop of skegd: scores, kernel gradient steps on the buffer, gradient steps of the experts. Maps are made elsewhere."""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import fill_row, own_value
from algorithms.common.linalg import LARGEST_STEP, largest, missing, norm2, put
from algorithms.sketching.expansion import FAR, HINGE, buffer_step, products, side, steps

MAPPED = 7  # where the counts of a slot say how many rows the field `map` holds
AGGRESSIVENESS = 10.0  # most a passive-aggressive step takes of phi(x); features close to 0 ask for any number
DISCOUNT = 0.99  # of the experts' hinge losses, a round


class Rule(NamedTuple):
    """The settings as compiled code reads them."""

    budget: int
    refresh: int
    first_step: float
    ridge: float


@compiled
def rows_until(begin, again, work, slots, X, Y, learn, out, code, rule, rates):
    """Rows from `begin` on; gives the number of one that asks for a map, or of the last plus 1.

    A row that asks for the first map is done with, one that asks for a new map goes on `again` with the gradient step.
    """
    supports, weights_of, _, _, _, landmarks_of, _, maps, _, _, _, experts_of, penalties_of, seen, _, counts, _ = work
    k = np.empty(max(supports.shape[1], maps.shape[1]))
    along, phi, scores = np.empty(Y.shape[1]), np.empty(maps.shape[2]), np.empty(penalties_of.shape[1])
    for n in range(begin, len(X)):
        key, x, y = slots[n], X[n], Y[n]
        if missing(x):
            continue
        kxx = own_value(code, x)
        if not np.isfinite(kxx):
            continue
        count, mapped = counts[key, 0], counts[key, MAPPED] > 0
        experts, penalties = experts_of[key], penalties_of[key]
        resumed = again and n == begin

        # Predict with what earlier rows taught.
        if mapped:
            fill_row(code, landmarks_of[key], maps.shape[1], x, k)
            within = products(k, maps[key], maps.shape[1], phi) and products(phi, experts, phi.size, scores)
        else:
            fill_row(code, supports[key], count, x, k)
            within = products(k, weights_of[key], count, along)
        if not resumed:
            prediction = out.prediction[n]
            if mapped and within:
                put(out.features[n], phi)
                _mix(penalties, scores, prediction)
            elif within:
                put(prediction, along)
            if within and not missing(y):
                out.loss[n] = steps(HINGE, prediction, y, rule.first_step, along)
            if not learn[n] & 2 or missing(y) or not within or not kxx < FAR:
                continue
            seen[key] += 1

            # Stage one: kernel gradient steps on the buffer.
            if not mapped:
                if count == rule.budget:
                    return n
                if buffer_step(supports[key], weights_of[key], count, x, 1.0 - rule.first_step * rule.ridge, along):
                    counts[key, 0], counts[key, 1] = count + 1, count + 1
                    out.admitted[n] = 1
                continue

            # Stage two.
            for c in range(scores.size):
                lack = max(0.0, 1.0 - side(y[c % y.size]) * scores[c])
                penalties[c] = DISCOUNT * penalties[c] + min(lack, LARGEST_STEP)
            if seen[key] % rule.refresh == 1 % rule.refresh:
                return n
        if within:
            _learn(phi, scores, y, rates, rule.ridge, experts)
    return len(X)


@compiled
def _mix(penalties, scores, prediction):
    """Each target's score: the experts', weighted by exp(-penalty)."""
    targets = prediction.size
    for t in range(targets):
        least = penalties[t]
        for c in range(t, scores.size, targets):
            least = min(least, penalties[c])
        total, weight = 0.0, 0.0
        for c in range(t, scores.size, targets):
            share = np.exp(least - penalties[c])
            total += share * scores[c]
            weight += share
        prediction[t] = total / weight


@compiled
def _learn(phi, scores, y, rates, ridge, experts):
    """w = (1 - eta lambda) w + eta y phi where the expert's loss is nonzero, (6)."""
    length2, top = norm2(phi), max(1.0, largest(phi))
    for c in range(scores.size):
        rate, label = rates[c // y.size], side(y[c % y.size])
        lack = 1.0 - label * scores[c]
        size = 0.0
        if lack > 0.0:
            size = rate if rate > 0.0 else min(AGGRESSIVENESS, lack / length2)
        if size * top < LARGEST_STEP:
            for i in range(phi.size):
                experts[i, c] = (1.0 - rate * ridge) * experts[i, c] + label * size * phi[i]
