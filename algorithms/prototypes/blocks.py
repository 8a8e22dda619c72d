"""Prototypes in blocks: k-means on few points, and the inverse of each block's own gram matrix.

One matrix Q (b, b) holds the inverses of all blocks: row i begins with the row of slot i in the inverse of its block, one
entry per member; the rest is not read. Members are always taken in the order of their slots, so that Q follows from the
prototypes and their blocks to the bit. Vectors `near` and `u` have one entry per member, in the same order. Codes (overlap
kernel) have no mean: their distances are those of one-hot columns, which the kernel gives, |x - mean|^2 / dim = 1 - 2 (mean
kernel to the members) + (mean kernel among them).
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Code, fill_row, value
from algorithms.common.linalg import distance2, put
from algorithms.common.protocol import Array
from algorithms.prototypes.inverse import ridge_of

ROUNDS = 20  # of Lloyd's algorithm


@compiled
def nearest(means: Array, x: Array) -> int:
    """The block with the nearest mean, the lowest of equals."""
    block, least = 0, np.inf
    for i in range(len(means)):
        gap2 = distance2(means[i], x)
        if gap2 < least:
            block, least = i, gap2
    return block


@compiled
def nearest_of_codes(k: Array, block: Array, count: int, spread: Array) -> int:
    """The same for codes with kernel row k; spread: mean kernel among the members, infinite of none."""
    sums, members = np.zeros(len(spread)), np.zeros(len(spread))
    for i in range(count):
        sums[block[i]] += k[i]
        members[block[i]] += 1.0
    best, least = 0, np.inf
    for m in range(len(spread)):
        if members[m] > 0.0:
            gap2 = spread[m] - 2.0 * sums[m] / members[m]
            if gap2 < least:
                best, least = m, gap2
    return best


@compiled
def spread_of(code: Code, prototypes: Array, block: Array, count: int, own: int) -> float:
    """Mean kernel among the members of a block; infinite for an empty block."""
    total, size = 0.0, 0
    for i in range(count):
        if block[i] == own:
            size += 1
            for j in range(count):
                if block[j] == own:
                    total += value(code, prototypes[i], prototypes[j])
    return total / size / size if size else np.inf


@compiled
def cluster(code: Code, prototypes: Array, means: Array, block: Array, first: bool) -> None:
    """k-means, from points far from each other the first time and from what there is later; sets block and means."""
    if code[0] == 4.0:
        _cluster_codes(code, prototypes, len(means), block, first)
        return
    if first:
        farthest_first(prototypes, means)
    lloyd(prototypes, means, block)


@compiled
def _cluster_codes(code: Code, prototypes: Array, blocks: int, block: Array, first: bool) -> None:
    count = len(prototypes)
    k, most, spread = np.empty(count), np.full(count, -np.inf), np.empty(blocks)
    if first:
        at = 0
        for m in range(blocks):
            fill_row(code, prototypes, count, prototypes[at], k)
            farthest, least = 0, np.inf
            for i in range(count):
                if k[i] > most[i]:
                    block[i], most[i] = m, k[i]
                if most[i] < least:
                    farthest, least = i, most[i]
            at = farthest
    before = np.empty(count, np.int64)
    for _ in range(ROUNDS):
        for m in range(blocks):
            spread[m] = spread_of(code, prototypes, block, count, m)
        moved = False
        put(before, block)
        for i in range(count):
            fill_row(code, prototypes, count, prototypes[i], k)
            block[i] = nearest_of_codes(k, before, count, spread)
            moved = moved or block[i] != before[i]
        if not moved:
            return


@compiled
def farthest_first(points: Array, means: Array) -> None:
    """The first means: point 0, then each time the point farthest from those chosen, the lowest of equals."""
    gaps2 = np.empty(len(points))
    at = 0
    for m in range(len(means)):
        put(means[m], points[at])
        farthest, most = 0, -1.0
        for i in range(len(points)):
            gap2 = distance2(points[i], means[m])
            gaps2[i] = gap2 if m == 0 else min(gaps2[i], gap2)
            if gaps2[i] > most:
                farthest, most = i, gaps2[i]
        at = farthest


@compiled
def lloyd(points: Array, means: Array, block: Array) -> None:
    """k-means from these means: at most 20 rounds; a block without points keeps its mean."""
    for turn in range(ROUNDS):
        moved = False
        for i in range(len(points)):
            own = nearest(means, points[i])
            moved = moved or own != block[i] or turn == 0
            block[i] = own
        if not moved:
            return
        for m in range(len(means)):
            mean_of(points, block, m, means[m])


@compiled
def mean_of(points: Array, block: Array, own: int, mean: Array) -> None:
    """The mean of the points of a block, as it is without any."""
    members = np.empty(len(points), np.int64)
    size = members_of(block, len(points), own, members)
    if size == 0:
        return
    for j in range(mean.size):
        mean[j] = 0.0
    for a in range(size):
        for j in range(mean.size):
            mean[j] += points[members[a], j] / size


@compiled
def members_of(block: Array, count: int, own: int, members: Array) -> int:
    """The slots of a block in order; gives how many."""
    size = 0
    for i in range(count):
        if block[i] == own:
            members[size] = i
            size += 1
    return size


@compiled
def border(Q: Array, members: Array, size: int, near: Array, corner: float, u: Array) -> float:
    """u = Q near, near the kernel values of the members; gives the Schur complement corner - near'u."""
    for a in range(size):
        u[a] = 0.0
    for b in range(size):  # by rows of the symmetric Q, which vector instructions like
        row, own = Q[members[b]], near[b]
        for a in range(size):
            u[a] += row[a] * own
    total = corner
    for a in range(size):
        total -= near[a] * u[a]
    return total


@compiled
def invert_block(K: Array, members: Array, size: int, ridge: float, Q: Array) -> float:
    """Q of a block from its gram matrix K, of which the lower triangle is read; gives log det (K + ridge I)."""
    u, total = np.empty(size), 0.0
    for a in range(size):
        total += np.log(extend_block(Q, members, a, members[a], K[a], K[a, a], ridge, u))
    return total


@compiled
def extend_block(Q: Array, members: Array, size: int, slot: int, near: Array, kxx: float, ridge: float, u: Array) -> float:
    """Q of a block with one more member, `slot`, behind the others; gives the Schur complement."""
    own = ridge_of(kxx, ridge, size)
    schur = max(border(Q, members, size, near, kxx + own, u), own)
    last = Q[slot]
    for b in range(size):
        row, along = Q[members[b]], u[b]
        for c in range(size):
            row[c] += (along * u[c]) / schur
        row[size] = -along / schur
        last[b] = row[size]
    last[size] = 1.0 / schur
    return schur


@compiled
def least_loss(Q: Array, members: Array, size: int) -> tuple[int, float]:
    """The member without which a block loses least, the lowest of equals, and that loss: -log Q_ii; (-1, inf) of none."""
    slot, loss = -1, np.inf
    for a in range(size):
        own = -np.log(Q[members[a], a])
        if own < loss:
            slot, loss = members[a], own
    return slot, loss
