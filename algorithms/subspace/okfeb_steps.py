"""The steps of OK-FEB around its update: what follows from a new factor, and rows that the subspace misses altogether."""

from algorithms.common.compiled import compiled
from algorithms.common.eigen import square_root
from algorithms.common.kernels import value
from algorithms.common.linalg import put, remove_row
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
    for i in range(features.size):
        features[i] = 0.0
    for i in range(count):
        for j in range(count):
            features[i] += root[i, j] * mixed[j]
