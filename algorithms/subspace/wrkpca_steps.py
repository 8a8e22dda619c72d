"""The steps of WR-KPCA: the matrix M of past rows, the eviction from a full budget, the leading directions of C."""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.eigen import symmetric
from algorithms.common.linalg import cholesky, invert_lower, solve_lower_transposed, transposed_product
from algorithms.subspace import budget_steps as bud
from algorithms.subspace import projection as sub
from algorithms.subspace.budget_steps import JITTER

LARGEST = 1e100  # a larger kappa(x, x) is not stored: its products leave the floating-point range


class WrRules(NamedTuple):
    """Settings as compiled code reads them."""

    budget: int
    ridge: float
    decay: float
    fade: float
    boost: float  # weight of the newest row's own part, in units of the carried one: (1 - floor) / floor
    averaged: bool  # censor by the moving average
    below: float  # censoring threshold otherwise; negative = off
    window: int


@compiled
def directions(rules, gram, spread, age, m, factor):
    """A = L'^-1 V, with K = L L' and V the leading eigenvectors of L'M L: those of C = Phi_S M Phi_S' in coordinates."""
    rank = factor.shape[1]
    M, lower, half, C = np.empty((m, m)), np.zeros((m, m)), np.empty((m, m)), np.empty((m, m))
    at = 0
    for i in range(m):
        for j in range(i + 1):
            M[i, j] = spread[at]
            M[j, i] = spread[at]
            at += 1
        M[i, i] += rules.boost * bud.power(rules.fade, age[i])
    cholesky(gram, m, 0.0, JITTER, sub.LOST, lower)
    transposed_product(M, lower, m, m, half)
    transposed_product(lower, half, m, m, C)
    vectors = symmetric(C, m)[1]
    for c in range(rank):
        for i in range(m):
            half[0, i] = vectors[i, c]
        solve_lower_transposed(lower, m, half[0])
        for i in range(m):
            factor[i, c] = half[0, i]


@compiled
def faded(rules, spread, count, M):
    """M of the stored samples, one row of decay older, with a last row for the newcomer."""
    at = 0
    for i in range(count):
        for j in range(i + 1):
            M[i, j] = rules.decay * spread[at]
            M[j, i] = M[i, j]
            at += 1
    for i in range(count):
        M[count, i] = 0.0
        M[i, count] = 0.0
    M[count, count] = 1.0


@compiled
def size(M, m):
    total = 0.0
    for i in range(m):
        for j in range(i + 1):
            total += abs(M[i, j])
    return total


@compiled
def pack(M, m, spread):
    at = 0
    for i in range(m):
        for j in range(i + 1):
            spread[at] = M[i, j]
            at += 1


@compiled
def hand_over(rules, gram, M, age, m, lower, inverse, share):
    """The sample to evict of m, argmin C_ii / [K^-1]_ii; the others take over its part of M, by its projection on them."""
    if cholesky(gram, m, 0.0, JITTER, 0.0, lower) < m:  # rounding: no inverse, so the oldest leaves and takes its part along
        return 0
    invert_lower(lower, m, inverse)  # W, K^-1 = W W'
    leaver, least = 0, np.inf
    for i in range(m):
        spread = 0.0  # [K^-1]_ii
        for t in range(i, m):
            spread += inverse[i, t] * inverse[i, t]
        cost = (M[i, i] + rules.boost * bud.power(rules.fade, age[i] + 1 if i < m - 1 else 0)) / spread
        if cost < least:
            leaver, least = i, cost
    spread = 0.0
    for t in range(leaver, m):
        spread += inverse[leaver, t] * inverse[leaver, t]
    for j in range(m):
        share[j] = 0.0
        if j != leaver:
            for t in range(max(j, leaver), m):
                share[j] -= inverse[j, t] * inverse[leaver, t]
            share[j] /= spread
    own = M[leaver, leaver]
    for i in range(m):
        if i == leaver:  # its row and column are read here, and go
            continue
        for j in range(i + 1):
            if j != leaver:
                M[i, j] += share[i] * M[leaver, j] + M[i, leaver] * share[j] + share[i] * share[j] * own
    return leaver
