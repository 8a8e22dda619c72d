"""One step of stochastic gradient descent on the atoms: H and the weights of the samples, in O(atoms^2 + m atoms).

Both steps are D' = D M - phi(x) r', with M symmetric and near I; what is left to the caller is to store x with -r.
"""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import dot, largest, norm2, solve_lower, solve_lower_transposed
from algorithms.dictionary.atoms import image, rank_two, turn
from algorithms.dictionary.coding import TRACE, factor_active

OVERSHOOT = 1.5  # most of rho |a|^2: at 1 a step fits its row whole, from 2 on it leads away
LONGEST = 1.0  # most of rho |a| |beta|: a step beyond could double an atom, and does not take place
LARGEST_ERROR = 1e50  # of a prediction, and of w, from which a row teaches nothing


class Rules(NamedTuple):
    """Settings as compiled code reads them."""

    discriminative: bool
    l1: float
    l2: float
    ridge: float  # mu
    nu: float
    step_size: float
    step_decay: float
    step_freeze: int
    budget: int  # 0 = unlimited
    evict: int  # index in EVICTIONS
    grace: int  # of the newest samples none leaves


@compiled
def step_length(rules, n, a):
    """rho_n of row n, from 1, as far as it does not lead away from the row."""
    slowed = n if rules.step_freeze < 0 else min(n, rules.step_freeze)
    rho, length2 = rules.step_size / (1.0 + slowed / rules.step_decay), norm2(a)
    return OVERSHOOT / length2 if rho * length2 > OVERSHOOT else rho


@compiled
def reconstructive(rules, rho, H, weights, count, c, a, Ha, ls_error, entry, u, v):
    """(14), (16): M = (1 - mu rho) I - rho a a', r = -rho a."""
    keep = 1.0 - rules.ridge * rho
    for j in range(a.size):
        entry[j] = keep * rho * (c[j] - Ha[j]) + 0.5 * rho * rho * ls_error * a[j]
    rank_two(H, keep * keep, a, entry)
    turn(weights, count, keep, -0.5 * rho, a, a, u, v)
    for j in range(a.size):
        entry[j] = rho * a[j]


@compiled
def discriminative(rules, rho, H, weights, count, c, a, Ha, kxx, w, error, active, used, M, L, beta, entry, scratch, u, v):
    """(27), (28), (30): M = (1 - mu rho) I + rho (beta a' + a beta'), r = rho beta; and w. False: D stays."""
    if not max(largest(error), largest(w.reshape(w.size))) < LARGEST_ERROR:
        return False
    _beta(rules.l2, H, w, error, active, used, M, L, scratch, beta)
    for j in range(a.size):
        for t in range(error.size):
            w[j, t] += rho * (error[t] * a[j] - rules.nu * w[j, t])
        entry[j] = 0.0
    if not rho * np.sqrt(norm2(a) * norm2(beta)) <= LONGEST:
        return False
    keep = 1.0 - rules.ridge * rho
    image(H, beta, active, used, entry)
    bHb, aHa, aHb, ac, bc = dot(beta, entry), dot(a, Ha), dot(a, entry), dot(a, c), dot(beta, c)
    for j in range(a.size):
        along_a = keep * entry[j] + 0.5 * rho * bHb * a[j]
        along_b = keep * (Ha[j] - c[j]) - rho * (beta[j] * ac + a[j] * bc)
        along_b += rho * (0.5 * (aHa + kxx) * beta[j] + aHb * a[j])
        entry[j], scratch[j] = rho * along_a, rho * along_b
    rank_two(H, keep * keep, a, entry)
    rank_two(H, 1.0, beta, scratch)
    turn(weights, count, keep, rho, a, beta, u, v)
    for j in range(a.size):
        entry[j] = -rho * beta[j]
    return True


@compiled
def _beta(l2, H, w, error, active, used, M, L, scratch, beta):
    """(33), (34), summed over the targets: beta = (H + l2 I)^-1 grad c on the active atoms, 0 elsewhere."""
    beta[:] = 0.0
    for i in range(used):
        scratch[i] = 0.0
        for t in range(error.size):
            scratch[i] -= w[active[i], t] * error[t]
    factor_active(H, l2, active, used, M, L, TRACE)
    solve_lower(L, used, scratch)
    solve_lower_transposed(L, used, scratch)
    for i in range(used):
        beta[active[i]] = scratch[i]
