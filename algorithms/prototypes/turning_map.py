"""The whitened map of prototypes that take each other's places: the newcomer comes last, the others turn by rotations.

As in `whitened_map.py`, K + ridge I = U'U and z = U'^-1 k, here in the order of arrival: `order[i]` is the slot of the
prototype behind coordinate i. When one leaves, row i of U is rotated into the rows below it (O(m^2), always stable) and a
coordinate is left over, `lost`, along what the others do not span; the newcomer's coordinate keeps the share `kept` of it.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import LOST, extend, whiten
from algorithms.common.kernels import Code, fill_row, own_value
from algorithms.common.linalg import dot, norm2
from algorithms.common.protocol import Array

RIDGE = 1e-6  # on the diagonal of the gram matrix behind the map; the ridge of a criterion is another one


@compiled
def arrange(arrival: Array, count: int, order: Array) -> None:
    """The slots of the first `count` prototypes in order of arrival, by insertion (nearly sorted as they are)."""
    for i in range(count):
        at = i
        while at > 0 and arrival[order[at - 1]] > arrival[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i


@compiled
def build(code: Code, prototypes: Array, count: int, order: Array, U: Array) -> None:
    """U of the prototypes in `order`, from nothing."""
    k, z = np.empty(len(prototypes)), np.empty(len(prototypes))
    for i in range(count):
        x = prototypes[order[i]]
        fill_row(code, prototypes, count, x, k)
        in_order(k, order, i, z)
        whiten(U, i, z)
        extend(U, i, z, own_value(code, x), RIDGE)


@compiled
def in_order(k: Array, order: Array, count: int, z: Array) -> None:
    """z[i] = k[order[i]] for the first `count`."""
    for i in range(count):
        z[i] = k[order[i]]


@compiled
def enter(U: Array, order: Array, count: int, slot: int, k: Array, kxx: float, z: Array) -> None:
    """x in `slot` as the last coordinate, behind the first `count`; z (count + 1,) become its coordinates."""
    in_order(k, order, count, z)
    whiten(U, count, z)
    append(U, order, count, slot, kxx, z)


@compiled
def append(U: Array, order: Array, count: int, slot: int, kxx: float, z: Array) -> None:
    """The same, where z has the first `count` coordinates of x already."""
    extend(U, count, z, kxx, RIDGE)
    order[count] = slot
    pivot = U[count, count]
    z[count] = max(kxx - norm2(z[:count]), 0.0) / pivot if pivot > 0.0 else 0.0


@compiled
def leave(code: Code, prototypes: Array, U: Array, order: Array, count: int, slot: int, turns: Array) -> int:
    """Take the prototype of `slot` (still in its place) out of U; gives its coordinate, turns (2, m) the rotations."""
    first = 0
    while order[first] != slot:
        first += 1
    rest = np.empty(len(order))
    for t in range(first + 1, count):
        rest[t] = U[first, t]
    for i in range(first):
        for t in range(first, count - 1):
            U[i, t] = U[i, t + 1]
    for i in range(first, count - 1):
        order[i] = order[i + 1]
        row, below = U[i], U[i + 1]
        a, b = below[i + 1], rest[i + 1]
        cosine, sine = 1.0, 0.0
        if a > 0.0 or b * b > LOST * (own_value(code, prototypes[order[i]]) + RIDGE):
            length = np.sqrt(a * a + b * b)
            cosine, sine = a / length, b / length
        turns[0, i], turns[1, i] = cosine, sine
        for t in range(i, count - 1):
            upper, lower = below[t + 1], rest[t + 1]
            row[t] = cosine * upper + sine * lower
            rest[t + 1] = cosine * lower - sine * upper
    return first


@compiled
def turn_vector(z: Array, first: int, count: int, turns: Array) -> None:
    """The coordinates of something after `leave`, in place; the last one is what is lost."""
    lost = z[first]
    for i in range(first, count - 1):
        cosine, sine = turns[0, i], turns[1, i]
        upper = z[i + 1]
        z[i] = cosine * upper + sine * lost
        lost = cosine * lost - sine * upper
    z[count - 1] = lost


@compiled
def turn_rows(M: Array, first: int, count: int, turns: Array) -> None:
    """The same for every column of M (m, c)."""
    lost = np.empty(M.shape[1])
    for c in range(M.shape[1]):
        lost[c] = M[first, c]
    for i in range(first, count - 1):
        cosine, sine, row, below = turns[0, i], turns[1, i], M[i], M[i + 1]
        for c in range(M.shape[1]):
            upper = below[c]
            row[c] = cosine * upper + sine * lost[c]
            lost[c] = cosine * lost[c] - sine * upper
    for c in range(M.shape[1]):
        M[count - 1, c] = lost[c]


@compiled
def share(U: Array, count: int, lost: float) -> float:
    """How much of the lost direction the newcomer's coordinate has; `lost`: the newcomer's own coordinate along it."""
    pivot = U[count - 1, count - 1]
    return min(max(lost / pivot, -1.0), 1.0) if pivot > 0.0 else 0.0


@compiled
def change_of_basis(T: Array, first: int, count: int, turns: Array, kept: float) -> None:
    """T with z' = T z for what the old coordinates say of the new ones: the rotations, and the share of what is lost."""
    for i in range(len(T)):
        for j in range(len(T)):
            T[i, j] = 1.0 if i == j else 0.0
    turn_rows(T, first, count, turns)
    for j in range(len(T)):
        T[count - 1, j] *= kept


@compiled
def coefficients(U: Array, order: Array, count: int, z: Array, c: Array) -> None:
    """c = (K + ridge I)^-1 k by slots, from the whitened z; four partial sums so that none waits for the one before."""
    w = np.empty(count)
    for i in range(count - 1, -1, -1):
        row = U[i]
        total = z[i] - dot(row[i + 1 : count], w[i + 1 : count])
        w[i] = total / row[i] if row[i] > 0.0 else 0.0
    for i in range(count):
        c[order[i]] = w[i]
