"""The steps of OK-FEB: its settings in compiled form, the update of A, what follows from it, and evictions."""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.eigen import square_root
from algorithms.common.kernels import value
from algorithms.common.linalg import cholesky, invert_lower, norm2, put, remove_at, remove_row
from algorithms.subspace import projection as sub

FAR = 0.99  # share of kappa(x, x) above which x counts as missed altogether


@compiled
def turn(basis, n, listens, gram, factor, count, rules, shared, image, inner, solver, rotation, root, turned):
    """What follows from a new A, and for a head the way w' = R'^-T L'^T L R^-1 w from the old coordinates to the new.

    `shared` holds the rows of K(S', S) A: new support S', old support S, old A.
    """
    if listens:
        sub.cross(factor, shared, count, turned)
        sub.leave_basis(rotation, turned)
    sub.refresh(gram, factor, count, rules.ridge, image, inner, solver, rotation)
    if listens and sub.enter_basis(rotation, turned):
        sub.announce(basis, n, turned)
    if rules.on_support:
        square_root(gram, count, root)


@compiled
def new_place(code, far, counts, x, kxx, budget):
    """Append x to the rows missed in a row, unless it repeats one of them; True when `budget` of them lie together.

    Together: each resembles another one (rho^2 > .01). Outliers that have nothing in common are not a new subspace: the
    oldest of them is dropped and what was learned stays.
    """
    m = counts[4]
    for i in range(m):
        if kxx + value(code, far[i], far[i]) - 2.0 * value(code, far[i], x) <= 1e-12 * kxx:
            return False
    put(far[m], x)
    counts[4] = m + 1
    if m + 1 < budget:
        return False
    for i in range(budget):
        best = 0.0
        for j in range(budget):
            if j != i:
                both = value(code, far[i], far[j])
                best = max(best, both * both / value(code, far[j], far[j]))
        if not best > (1.0 - FAR) * value(code, far[i], far[i]):
            remove_row(far, 0, budget)
            counts[4] = budget - 1
            return False
    return True


@compiled
def on_support(root, factor, count, q, mixed, features):
    """z = K^(1/2) A q, in the order of the support; what a budget not yet full leaves free is 0."""
    for i in range(count):
        total = 0.0
        for c in range(q.size):
            total += factor[i, c] * q[c]
        mixed[i] = total
    features[:] = 0.0
    for i in range(count):
        for j in range(count):
            features[i] += root[i, j] * mixed[j]


STEP_RULES = ("inverse_norm", "over_n", "over_n2", "lipschitz", "constant")
EVICTIONS = ("projected", "decayed_norm", "oldest", "min_distortion", "redundancy", "projected_older")
NEWEST = 2, 5  # fifths of a budget that projected_older never evicts from: 2 of 5
JITTER = 1e-10  # of the gram matrix before it is inverted, relative to its diagonal
SINGULAR = 1e-8  # a pivot this small relative to its diagonal entry: the stored samples depend on each other


class Rules(NamedTuple):
    """Settings as compiled code reads them; from `evict` on those of a budget."""

    parametric: bool
    step_rule: int  # index in STEP_RULES
    step_size: float
    step_floor: float
    ridge: float
    recede: bool
    seed_size: int
    kpca: bool
    evict: int = 0  # index in EVICTIONS
    decay: float = 1.0
    handed: bool = False  # the others take over what the evicted sample carried
    safe: int = 0  # of the newest samples none leaves
    by_admission: bool = True  # ages count admissions, not evictions
    budget: int = 0
    averaged: bool = False  # censor by the moving average
    below: float = -1.0  # censoring threshold otherwise; negative = off
    window: int = 100
    on_support: bool = False  # features z = K^(1/2) A q


@compiled
def mean(values, count):
    """Of the first `count`; -1 where there are none, so that nothing is below it."""
    if count == 0:
        return -1.0
    total = 0.0
    for i in range(count):
        total += values[i]
    return total / count


@compiled
def below_mean(value, values, count):
    """value < mean(values, count), values of 0 or more. Four sums tell it but for rounding, in a third of the time."""
    whole = count - count % 4
    total1, total2, total3, total4 = 0.0, 0.0, 0.0, 0.0
    for i in range(0, whole, 4):
        total1 += values[i]
        total2 += values[i + 1]
        total3 += values[i + 2]
        total4 += values[i + 3]
    for i in range(whole, count):
        total1 += values[i]
    total, wanted = (total1 + total2) + (total3 + total4), value * count
    if abs(wanted - total) > 1e-9 * (wanted + total):
        return wanted < total
    return value < mean(values, count)


@compiled
def censored(rules, ls_error, recent, count):
    """True when the LS error lies below the threshold: the mean of the `count` recent ones, or a number."""
    return below_mean(ls_error, recent, count) if rules.averaged else ls_error < rules.below


@compiled
def remember(values, count, window, newest):
    """Append to the first `count` values, of which the last `window` are kept; gives how many there are now."""
    if count == window:
        remove_at(values, 0, window)
        count -= 1
    values[count] = newest
    return count + 1


@compiled
def step_length(rules, length, n, curvature, gram, count, kxx):
    """mu of row n, and the sum of curvatures with this row's (Proposition 2; 3 for the nonparametric update)."""
    gamma = length * length + rules.ridge / n
    if not rules.parametric:  # xi = tr(K_S) gamma: the proof's |Phi|^2
        trace = kxx
        for i in range(count):
            trace += gram[i, i]
        gamma *= trace
    curvature += gamma
    if rules.step_rule == 0:
        return rules.step_size / max(length, rules.step_floor), curvature
    if rules.step_rule == 1:
        return rules.step_size / n, curvature
    if rules.step_rule == 2:
        return rules.step_size / n / n, curvature
    if rules.step_rule == 3:
        return rules.step_size / curvature, curvature
    return rules.step_size, curvature


@compiled
def updated(rules, step, n, factor, image, count, k, kxx, b, q, trial):
    """A of (16), or of (19a) with (19b), with the new sample's row last; `image` is K A, b = A'k."""
    rank = q.size
    pull = step * rules.ridge / n if rules.recede else 0.0
    for i in range(count + 1):
        along = 0.0  # of row i: (A q)_i, or (K A q - k)_i, times -step
        if rules.parametric:
            if i < count:
                for c in range(rank):
                    along += factor[i, c] * q[c]
            else:
                along = -1.0
        elif i < count:
            for c in range(rank):
                along += image[i, c] * q[c]
            along -= k[i]
        else:
            for c in range(rank):
                along += b[c] * q[c]
            along -= kxx
        along *= step
        for c in range(rank):
            before = factor[i, c] if i < count else 0.0
            trial[i, c] = before - along * q[c]
            if pull > 0.0 and rules.parametric:
                trial[i, c] -= pull * before
            elif pull > 0.0:
                trial[i, c] -= pull * (image[i, c] if i < count else b[c])


@compiled
def power(base, exponent):
    """base^exponent for a whole exponent of 0 or more, by squaring."""
    result = 1.0
    for _ in range(6):  # without branches, which the processor would mispredict
        result *= base if exponent & 1 else 1.0
        base *= base
        exponent >>= 1
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


@compiled
def victim(rules, gram, trial, age, count, lower, inverse):
    """The sample to evict, of `count` stored ones and the newcomer; W = L'^-1, LL' = K, stays in `inverse` where needed."""
    if rules.evict == 2:  # oldest
        return 0
    m = count + 1
    by_inverse = rules.handed or rules.evict == 4  # projected, redundancy
    if by_inverse:
        by_inverse = cholesky(gram, m, 0.0, JITTER, 0.0, lower) == m
        if by_inverse:
            invert_lower(lower, m, inverse)
            trim(gram, lower, inverse, m, trial)
        else:  # out of range: nothing is handed over
            for i in range(m):
                inverse[i, i] = 0.0
    leaver, least = 0, np.inf
    for i in range(m - rules.safe):
        cost = norm2(trial[i])
        if rules.evict == 3:  # (24), for which O(r) per sample is enough
            cost *= gram[i, i]
        elif rules.decay < 1.0 and rules.evict != 4:  # (26)
            if i < count:
                eta = power(rules.decay, age[i] + 1)
            else:
                eta = 1.0 if rules.by_admission else rules.decay
            cost *= eta * eta
        if by_inverse:
            spread = 0.0  # [K^-1]_ii
            for j in range(i, m):
                spread += inverse[i, j] * inverse[i, j]
            cost = (1.0 if rules.evict == 4 else cost) / spread
        if cost < least:
            leaver, least = i, cost
    return leaver


@compiled
def trim(gram, lower, inverse, m, trial):
    """Where samples depend on each other: what of A is nothing in feature space goes, A -= (K + D)^-1 D A, D the jitter.

    Left alone it grows with every hand-over (a kernel of finite rank below the budget) until rounding makes it matter.
    """
    for i in range(m):
        if lower[i, i] * lower[i, i] <= SINGULAR * gram[i, i]:
            break
    else:
        return
    along, moved = np.empty(m), np.empty(m)
    for c in range(trial.shape[1]):
        for t in range(m):
            moved[t] = 0.0
            along[t] = 0.0
            for i in range(t + 1):
                along[t] += inverse[i, t] * JITTER * gram[i, i] * trial[i, c]
        for i in range(m):
            for t in range(i, m):
                moved[i] += inverse[i, t] * along[t]
        for i in range(m):
            trial[i, c] -= moved[i]


@compiled
def hand_over(inverse, leaver, m, trial):
    """The others take over the part of phi(x_i) they span: a_j -= [K^-1]_ji / [K^-1]_ii a_i."""
    spread = 0.0
    for t in range(leaver, m):
        spread += inverse[leaver, t] * inverse[leaver, t]
    for j in range(m):
        if j == leaver or inverse[j, j] == 0.0:
            continue
        shared = 0.0
        for t in range(max(j, leaver), m):
            shared += inverse[j, t] * inverse[leaver, t]
        shared /= spread
        for c in range(trial.shape[1]):
            trial[j, c] -= shared * trial[leaver, c]


@compiled
def sound(trial, m):
    """True when every number is finite and none so large that its square could overflow."""
    wild, numbers = 0, trial.reshape(trial.size)  # one long loop looks at several at once, rows of ten are too short
    for i in range(m * trial.shape[1]):
        wild += not abs(numbers[i]) < 1e100
    return wild == 0
