"""What subspace learners share: projection on L = Phi_S A, its coordinates, and what follows from a changed A.

Letters: K = gram of the support S, A = factor, k = kernel row of x; image = K A, inner = A'K A, solver = Cholesky of
inner + ridge I, rotation = R' with R'R = inner. The features u = R q are coordinates in the orthonormal basis L R^-1.
solver and rotation are lower triangles by rows, n (n + 1) / 2 numbers: they lie in memory for every key.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.eigen import symmetric
from algorithms.common.kernels import Code, fill_row
from algorithms.common.linalg import cholesky_twice, put, transposed_product
from algorithms.common.protocol import Array
from algorithms.common.randomness import normal

LOST = 1e-12  # a pivot this small relative to its diagonal entry is rounding noise
LOST_DIRECTION = 1e-8  # the same for R; its inverse carries weights over
NO_DIRECTION = 1e-10  # an eigenvalue of a gram matrix this small relative to the largest is rounding noise


@compiled
def extend_gram(gram: Array, count: int, k: Array, kxx: float) -> None:
    """Row and column `count` of the gram matrix."""
    for i in range(count):
        gram[count, i] = k[i]
        gram[i, count] = k[i]
    gram[count, count] = kxx


@compiled
def fill_gram(code: Code, support: Array, count: int, gram: Array) -> None:
    for i in range(count):
        fill_row(code, support, i + 1, support[i], gram[i])
        for j in range(i):
            gram[j, i] = gram[i, j]


@compiled
def fill_image(code: Code, support: Array, count: int, factor: Array, image: Array) -> None:
    """image = K A without the gram matrix in memory."""
    k = np.empty(count)
    for i in range(count):
        fill_row(code, support, count, support[i], k)
        mix(factor, count, k, image[i])


@compiled
def is_repeat(gram: Array, count: int, k: Array, kxx: float) -> bool:
    """True when phi(x) lies within 1e-6 |phi(x)| of a stored sample, or is 0: an idle sensor, nothing new to store."""
    if not kxx > 0.0:
        return True
    for i in range(count):
        if kxx + gram[i, i] - 2.0 * k[i] <= 1e-12 * kxx:
            return True
    return False


@compiled
def refresh(gram, factor, count, ridge, image, inner, solver, rotation):
    """Everything that follows from gram and factor, always from scratch: the same bits in a loop and after a restart."""
    transposed_product(gram, factor, count, count, image)
    settle(factor, count, ridge, image, inner, solver, rotation)


@compiled
def settle(factor, count, ridge, image, inner, solver, rotation):
    """The same where image = K A is there already."""
    rank = factor.shape[1]
    transposed_product(factor, image, count, rank, inner)
    decompose(inner, ridge, solver, rotation)


@compiled
def decompose(inner, ridge, solver, rotation):
    rank = len(inner)
    lower, lower2 = np.empty((rank, rank)), np.empty((rank, rank))
    cholesky_twice(inner, rank, ridge, LOST, lower, LOST_DIRECTION, lower2)
    pack(lower, rank, solver)
    pack(lower2, rank, rotation)


@compiled
def pack(M, n, triangle):
    """The lower triangle of the leading n x n block of M, by rows."""
    start = 0
    for i in range(n):
        put(triangle[start : start + i + 1], M[i, : i + 1])
        start += i + 1


@compiled
def solve(triangle, b):
    """b = L^-1 b in place, L lower; a coordinate without a pivot becomes 0."""
    start = 0
    for i in range(b.size):
        total, row = b[i], triangle[start : start + i + 1]
        for j in range(i):
            total -= row[j] * b[j]
        b[i] = total / row[i] if row[i] != 0.0 else 0.0
        start += i + 1


@compiled
def solve_transposed(triangle, b):
    """b = L'^-1 b in place, L lower; a coordinate without a pivot becomes 0."""
    start = b.size * (b.size + 1) // 2
    for i in range(b.size - 1, -1, -1):
        start -= i + 1
        row = triangle[start : start + i + 1]
        b[i] = b[i] / row[i] if row[i] != 0.0 else 0.0
        scale = b[i]
        for j in range(i):
            b[j] -= scale * row[j]


@compiled
def mix(factor, count, k, b):
    """b = A'k; four columns at a time, so that no sum waits for the one before."""
    whole = b.size - b.size % 4
    for c in range(0, whole, 4):
        total1, total2, total3, total4 = 0.0, 0.0, 0.0, 0.0
        for i in range(count):
            weight, row = k[i], factor[i]
            total1 += weight * row[c]
            total2 += weight * row[c + 1]
            total3 += weight * row[c + 2]
            total4 += weight * row[c + 3]
        b[c], b[c + 1], b[c + 2], b[c + 3] = total1, total2, total3, total4
    for c in range(whole, b.size):
        total = 0.0
        for i in range(count):
            total += k[i] * factor[i, c]
        b[c] = total


@compiled
def project(factor, count, inner, solver, k, kxx, b, q):
    """(11b) q = (A'KA + ridge I)^-1 A'k, with b = A'k; gives the LS error kxx - 2 k'Aq + q'A'KAq."""
    rank = b.size
    mix(factor, count, k, b)
    for c in range(rank):
        q[c] = b[c]
    solve(solver, q)
    solve_transposed(solver, q)
    along, within = 0.0, 0.0
    for a in range(rank):
        total = 0.0
        for c in range(rank):
            total += inner[a, c] * q[c]
        along += b[a] * q[a]
        within += q[a] * total
    return max(kxx - 2.0 * along + within, 0.0) if np.isfinite(within) and np.isfinite(along) else np.nan


@compiled
def coordinates(rotation, q, features):
    """u = R q."""
    features[: q.size] = 0.0
    start = 0
    for c in range(q.size):
        row = rotation[start : start + c + 1]
        for a in range(c + 1):
            features[a] += row[a] * q[c]
        start += c + 1


@compiled
def plant(gram, count, factor, kpca, seed, draw):
    """A first factor for the stored samples: the leading kernel principal components (A'KA = I), or N(0, .1^2).

    Where the samples span fewer than `rank` directions the other columns are small random mixtures of those: at 0 they
    would stay 0 for ever, and divided by an eigenvalue that is rounding noise they would be noise too.
    """
    rank = factor.shape[1]
    if not kpca:
        for i in range(count):
            for c in range(rank):
                factor[i, c] = 0.1 * normal(seed, draw, i * rank + c)
        return
    values, vectors = symmetric(gram, count)
    for c in range(rank):
        factor[:count, c] = 0.0
        if c < count and values[c] > NO_DIRECTION * values[0]:
            for i in range(count):
                factor[i, c] = vectors[i, c] / np.sqrt(values[c])
            continue
        for j in range(c):
            if not values[j] > NO_DIRECTION * values[0]:
                break
            share = 0.1 * normal(seed, draw, c * rank + j)
            for i in range(count):
                factor[i, c] += share * factor[i, j]


@compiled
def cross(factor, image, count, turned):
    """turned = L'^T L = A'^T (K(S', S) A): `image` holds the rows of K(S', S) A for the new support S'."""
    transposed_product(factor, image, count, factor.shape[1], turned)


@compiled
def leave_basis(rotation, turned):
    """turned = turned R^-1, R the old basis's."""
    for a in range(turned.shape[0]):
        solve(rotation, turned[a])


@compiled
def enter_basis(rotation, turned):
    """turned = R'^-T turned, R' the new basis's; gives False (and the identity's place is left alone) if not finite.

    Both bases are orthonormal, so |turned|_F^2 <= rank; what rounding adds in a nearly lost direction is scaled away.
    """
    rank = turned.shape[0]
    for i in range(rank):
        pivot = rotation[i * (i + 1) // 2 + i]
        if pivot == 0.0:
            turned[i, :rank] = 0.0
            continue
        for c in range(rank):
            turned[i, c] /= pivot
        for j in range(i + 1, rank):
            scale = rotation[j * (j + 1) // 2 + i]
            for c in range(rank):
                turned[j, c] -= scale * turned[i, c]
    size2 = 0.0
    for a in range(rank):
        for c in range(rank):
            size2 += turned[a, c] * turned[a, c]
    if not np.isfinite(size2):
        return False
    if size2 > rank:
        shrink = np.sqrt(rank / size2)
        for a in range(rank):
            for c in range(rank):
                turned[a, c] *= shrink
    return True


@compiled
def announce(basis, n, turned):
    """Row n turned the basis this way."""
    basis.moved[n] = 1
    basis.transfer[n] = turned
