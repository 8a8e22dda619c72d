"""What the sketching learners share: steps on features, and the loop of skegd and nogd.

In the loop: scores, kernel gradient steps on the buffer, then steps on features of the map.
Maps are made elsewhere, in NumPy. Several targets are problems side by side on one buffer and one map.
"""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import fill_row, own_value
from algorithms.common.linalg import LARGEST_STEP, largest, missing, norm2, put
from algorithms.common.losses import evaluate, side, slope, steps
from algorithms.common.protocol import LEARN_HEAD, Array

LARGEST_RATE = 1e6  # a step size is below
AGGRESSIVENESS = 10.0  # most a passive-aggressive step takes of the features; those close to 0 ask for any number
FAR = 1e30  # a row with kappa(x, x) not below this teaches nothing: its square and those of sums of it stay in range


def check_rows(name: str, expected: dict[str, int], rows: dict[str, int]) -> None:
    """Raise ValueError at the first field that does not have the expected rows."""
    for field, wanted in expected.items():
        if rows[field] != wanted:
            raise ValueError(f"{name}: expected {wanted} rows of {field} in such a state, got {rows[field]}.")


@compiled
def learn_step(loss: int, features: Array, scores: Array, y: Array, rates: Array, ridge: float, w: Array) -> None:
    """w = (1 - eta ridge) w - eta loss' features for each column of w; rate 0: passive-aggressive, for hinge losses.

    Columns are rates by targets. A step out of range is not taken.
    """
    length2, top = norm2(features), max(1.0, largest(features))
    for c in range(scores.size):
        rate, wanted = rates[c // y.size], y[c % y.size]
        step = slope(loss, scores[c], wanted)
        if rate > 0.0:
            step *= rate
        elif step != 0.0:
            step *= min(AGGRESSIVENESS, (1.0 - side(wanted) * scores[c]) / length2)
        if abs(step) * top < LARGEST_STEP:
            for i in range(features.size):
                w[i, c] = (1.0 - rate * ridge) * w[i, c] + step * features[i]


DISCOUNT = 0.99  # of the experts' hinge losses, a round


class Rule(NamedTuple):
    """The settings as compiled code reads them."""

    loss: int
    budget: int
    at_once: bool  # the row that fills the buffer asks for the first map, not the one that finds it full
    mapped: int  # where the counts of a slot say how many rows the field `map` holds
    refresh: int  # 0: no new map
    first_step: float
    ridge: float


class Rounds(NamedTuple):
    """A workspace's arrays that the loop takes."""

    support: Array
    weights: Array
    landmarks: Array  # the support again, where they are all of it
    map: Array
    experts: Array
    penalties: Array
    seen: Array
    counts: Array


@compiled
def rows_until(begin, again, rounds, slots, X, Y, learn, out, code, rule, rates):
    """Rows from `begin` on; gives the number of one that asks for a map, or of the last plus 1.

    A row that asks for the first map is done with, one that asks for a new map goes on `again` with the gradient step.
    """
    supports, weights_of, landmarks_of, maps, experts_of, penalties_of, seen, counts = rounds
    k = np.empty(max(supports.shape[1], maps.shape[1]))
    along, phi, scores = np.empty(Y.shape[1]), np.empty(maps.shape[2]), np.empty(penalties_of.shape[1])
    for n in range(begin, len(X)):
        key, x, y = slots[n], X[n], Y[n]
        if missing(x):
            continue
        kxx = own_value(code, x)
        if not np.isfinite(kxx):
            continue
        count, mapped = counts[key, 0], counts[key, rule.mapped] > 0
        experts, penalties = experts_of[key], penalties_of[key]
        resumed = again and n == begin

        # Predict with what earlier rows taught.
        if mapped:
            fill_row(code, landmarks_of[key], maps.shape[1], x, k)
            within = evaluate(k, maps[key], maps.shape[1], phi) and evaluate(phi, experts, phi.size, scores)
        else:
            fill_row(code, supports[key], count, x, k)
            within = evaluate(k, weights_of[key], count, along)
        if not resumed:
            prediction = out.prediction[n]
            if mapped and within:
                put(out.features[n], phi)
                _mix(penalties, scores, prediction)
            elif within:
                put(prediction, along)
            if within and not missing(y):
                out.loss[n] = steps(rule.loss, prediction, y, rule.first_step, along)
            if not learn[n] & LEARN_HEAD or missing(y) or not within or not kxx < FAR:
                continue
            seen[key] += 1

            # Stage one: kernel gradient steps on the buffer.
            if not mapped:
                if count == rule.budget:
                    return n
                if largest(along) < LARGEST_STEP:
                    for i in range(count):
                        for t in range(along.size):
                            weights_of[key, i, t] *= 1.0 - rule.first_step * rule.ridge
                    if largest(along) > 0.0:
                        put(supports[key, count], x)
                        put(weights_of[key, count], along)
                        counts[key, :2] = count + 1
                        out.admitted[n] = 1
                        if rule.at_once and count + 1 == rule.budget:
                            return n
                continue

            # Stage two.
            if rates.size > 1:
                for c in range(scores.size):
                    lack = max(0.0, 1.0 - side(y[c % y.size]) * scores[c])
                    penalties[c] = DISCOUNT * penalties[c] + min(lack, LARGEST_STEP)
            if rule.refresh > 0 and seen[key] % rule.refresh == 1 % rule.refresh:
                return n
        if within:
            learn_step(rule.loss, phi, scores, y, rates, rule.ridge, experts)
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
