"""Atoms D = Phi(samples) atom_weights, and H = D'D, which every change of D takes along in O(atoms^2); and sparse codes.

A code is the minimiser of 1/2 a'Ha - c'a + l1 |a|_1 + l2/2 |a|^2, by coordinate descent.
H holds the inner products of the atoms, c those of the atoms with phi(x): this is (5) of the paper without its constant.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Code, fill_row, own_value
from algorithms.common.linalg import cholesky, dots, largest, norm2, solve_lower, solve_lower_transposed
from algorithms.common.protocol import Array

KKT = 1e-6  # largest violation of the optimality conditions, times max(1, |c|)
MOST_SWEEPS = 300  # over all atoms
SOLVE_EVERY = 8  # sweeps after which `_solve` runs in any case
TRACE = 1e-12  # of the largest diagonal entry, added where atoms may depend on each other
WIDE_TRACE, REPEATS = 1e-7, 3  # the same above what rounding leaves in H, and solves until its share is gone
ALIKE = 0.01  # rho^2 of two rows in the kernel's space from which they lie together


@compiled
def sparse_code(H: Array, c: Array, l1: float, l2: float, a: Array, slope: Array, active: Array, M: Array, L: Array) -> int:
    """a = the code; gives how many entries are not 0, listed in `active`. M, L (atoms, atoms) and slope are scratch.

    A sweep that leaves the signs as they are has probably found them, and the rest is a linear system: solving it saves
    the many sweeps in which dependent atoms hand over to each other, and makes the code exact.
    """
    atoms = c.size
    tolerance = KKT * max(1.0, largest(c))
    for k in range(atoms):
        a[k] = 0.0
        slope[k] = c[k]  # c - H a - l2 a
    for sweep in range(MOST_SWEEPS):
        if _sweep(H, l1, l2, a, slope) and sweep % SOLVE_EVERY < SOLVE_EVERY - 1:
            continue
        for _ in range(atoms):
            if _solve(H, l1, l2, a, slope, active, M, L, TRACE):
                break
        if _violation(l1, a, slope) <= tolerance:
            return _support(a, active)

    # Atoms depend on each other here, and rounding in H hides it from `TRACE`. A larger trace lets go of one atom after the
    # other until the rest are independent, and its own share of the solution vanishes as the solves are repeated.
    for _ in range(MOST_SWEEPS):
        for turn in range(2 * a.size):
            if _solve(H, l1, l2, a, slope, active, M, L, WIDE_TRACE) and turn >= REPEATS:
                break
        image(H, a, active, _support(a, active), slope)
        for k in range(a.size):  # without what rounding left in it
            slope[k] = c[k] - slope[k] - l2 * a[k]
        if _violation(l1, a, slope) <= tolerance:
            break
        _sweep(H, l1, l2, a, slope)
    return _support(a, active)


@compiled
def _sweep(H, l1, l2, a, slope):
    """Each entry in turn to its minimum; True where a sign changed."""
    changed = False
    for k in range(a.size):
        curvature = H[k, k] + l2
        if not curvature > 0.0:  # an atom of length 0
            continue
        old = a[k]
        pull = slope[k] + curvature * old
        new = 0.0
        if pull > l1:
            new = (pull - l1) / curvature
        elif pull < -l1:
            new = (pull + l1) / curvature
        gap = new - old
        if gap != 0.0:
            row = H[k]
            for j in range(a.size):
                slope[j] -= gap * row[j]
            slope[k] -= gap * l2
            a[k] = new
            changed = changed or (new > 0.0) != (old > 0.0) or (new < 0.0) != (old < 0.0)
    return changed


@compiled
def _support(a, active):
    size = 0
    for k in range(a.size):
        if a[k] != 0.0:
            active[size] = k
            size += 1
    return size


@compiled
def _solve(H, l1, l2, a, slope, active, M, L, trace):
    """Move `a` to the minimum for its present signs; False if an entry became 0 on the way, where it stays."""
    size = _support(a, active)
    if size == 0 or not factor_active(H, l2, active, size, M, L, trace):
        return True
    way = M[size - 1]  # M is not read again
    for i in range(size):
        way[i] = slope[active[i]] - l1 if a[active[i]] > 0.0 else slope[active[i]] + l1
    solve_lower(L, size, way)
    solve_lower_transposed(L, size, way)
    share, stop = 1.0, -1
    for i in range(size):
        old = a[active[i]]
        if old * (old + share * way[i]) <= 0.0:
            share, stop = -old / way[i], i
    for i in range(size):
        k, row = active[i], H[active[i]]
        gap = share * way[i] if i != stop else -a[k]
        a[k] += gap
        for j in range(a.size):
            slope[j] -= gap * row[j]
        slope[k] -= gap * l2
        if i == stop:
            a[k] = 0.0
    return stop < 0


@compiled
def factor_active(H: Array, l2: float, active: Array, size: int, M: Array, L: Array, trace: float) -> bool:
    """L L' = H + l2 I of the active atoms, plus a small trace, because atoms may depend on each other."""
    top = 0.0
    for i in range(size):
        top = max(top, H[active[i], active[i]])
        for j in range(i + 1):
            M[i, j] = H[active[i], active[j]]
    return cholesky(M, size, l2 + trace * top, 0.0, 0.0, L) == size


@compiled
def _violation(l1, a, slope):
    """How far the optimality conditions are missed: slope = l1 sign(a) where a is not 0, |slope| <= l1 elsewhere."""
    worst = 0.0
    for k in range(a.size):
        if a[k] == 0.0:
            gap = abs(slope[k]) - l1
        else:
            gap = abs(slope[k] - l1 if a[k] > 0.0 else slope[k] + l1)
        worst = max(worst, gap)
    return worst


@compiled
def inner_products(code: Code, samples: Array, weights: Array, count: int, H: Array) -> None:
    """H = D'D from the samples, O(count^2 (dim + atoms))."""
    atoms = H.shape[0]
    row, product = np.empty(len(samples)), np.empty(atoms)
    H[:atoms, :atoms] = 0.0
    for i in range(count):  # H += w_i (K_i,<i D_<i)' + its transpose + w_i w_i' K_ii
        fill_row(code, samples, i + 1, samples[i], row)
        row[i] *= 0.5
        against(weights, row, i + 1, product)
        rank_two(H, 1.0, weights[i], product)


@compiled
def against(weights: Array, k: Array, count: int, c: Array) -> None:
    """c = D'phi(x) from the kernel row k of x."""
    c[:] = 0.0
    for i in range(count):
        row, value = weights[i], k[i]
        for j in range(c.size):
            c[j] += value * row[j]


@compiled
def rank_two(H: Array, keep: float, a: Array, p: Array) -> None:
    """H = keep H + a p' + p a', symmetric to the bit."""
    for k in range(a.size):
        row, ak, pk = H[k], a[k], p[k]
        for j in range(a.size):
            row[j] = keep * row[j] + (ak * p[j] + pk * a[j])


@compiled
def image(H: Array, a: Array, active: Array, size: int, out: Array) -> None:
    """out = H a for an a that is 0 but at the first `size` indices in `active`."""
    out[:] = 0.0
    for i in range(size):
        row, value = H[active[i]], a[active[i]]
        for j in range(out.size):
            out[j] += value * row[j]


@compiled
def repeat_of(samples: Array, count: int, x: Array) -> int:
    """The stored sample equal to x, -1 where there is none."""
    for i in range(count):
        sample, j = samples[i], 0
        while j < x.size and sample[j] == x[j]:
            j += 1
        if j == x.size:
            return i
    return -1


@compiled
def turn(weights: Array, count: int, keep: float, step: float, a: Array, b: Array, u: Array, v: Array) -> None:
    """weights (keep I + step (a b' + b a')), row by row, as (30); u and v are scratch."""
    dots(weights, count, a, u)
    dots(weights, count, b, v)
    for i in range(count):
        row, along_a, along_b = weights[i], step * v[i], step * u[i]
        for j in range(a.size):
            row[j] = keep * row[j] + (along_a * a[j] + along_b * b[j])


@compiled
def weakest(H: Array) -> int:
    """The shortest atom, the first of equals."""
    least = 0
    for k in range(len(H)):
        if H[k, k] < H[least, least]:
            least = k
    return least


@compiled
def resembles_an_unused_sample(code: Code, samples: Array, weights: Array, count: int, k: Array, kxx: float) -> bool:
    """True when x lies together with a sample that no atom contains: an earlier row that no atom answered to either."""
    for i in range(count):
        if k[i] * k[i] > ALIKE * kxx * own_value(code, samples[i]) and norm2(weights[i]) == 0.0:
            return True
    return False


@compiled
def plant(weights: Array, H: Array, count: int, atom: int, row: int, c: Array, kxx: float) -> None:
    """The atom becomes phi(x) / |phi(x)|, x being the stored sample `row`; c = D'phi(x)."""
    scale = 1.0 / np.sqrt(kxx)
    weights[:count, atom] = 0.0
    weights[row, atom] = scale
    for j in range(c.size):
        H[atom, j] = c[j] * scale
        H[j, atom] = c[j] * scale
    H[atom, atom] = 1.0
